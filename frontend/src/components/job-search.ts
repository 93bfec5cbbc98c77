/** The job list's filters as they stand in the address, so that a view can be sent to a colleague. */

import type { JobFilters } from "@/api/queries";
import type { JobState } from "@/api/schema";

export const JOB_STATES: readonly JobState[] = ["queued", "running", "succeeded", "failed", "cancelled"];

export interface JobSearch {
  /** States, joined by commas. */
  state?: string;
  tenant?: string;
  vc?: string;
  guarantee?: string;
  model?: string;
  /** Who submitted it. */
  by?: string;
  /** A label, with its value or without. */
  label?: string;
  /** A class of failures. */
  failure?: string;
  /** How far back it was there, one of `PERIODS`. */
  within?: string;
  /** One of the API's orders; the newest first without. */
  sort?: string;
  /** The number of an array, of which the tasks are listed one by one. */
  array?: string;
  q?: string;
  /** By what the jobs are grouped: array, user, tenant, or label:NAME. */
  group?: string;
}

const KEYS = [
  "state",
  "tenant",
  "vc",
  "guarantee",
  "model",
  "by",
  "label",
  "failure",
  "within",
  "sort",
  "array",
  "q",
  "group",
] as const;

/** Since when a job has not ended, by what stands in the address. */
export const PERIODS: Readonly<Record<string, { label: string; hours: number }>> = {
  "1h": { label: "last hour", hours: 1 },
  "24h": { label: "last 24 hours", hours: 24 },
  "7d": { label: "last 7 days", hours: 7 * 24 },
  "30d": { label: "last 30 days", hours: 30 * 24 },
};

const MINUTE = 60_000;

/** What of an address's search is a filter; anything else is dropped. */
export function readJobSearch(search: Record<string, unknown>): JobSearch {
  const read: JobSearch = {};
  for (const key of KEYS) {
    const value = search[key];
    const asText = typeof value === "number" ? String(value) : value;
    if (typeof asText === "string" && asText) read[key] = asText;
  }
  const states = statesOf(read);
  if (states.length > 0) read.state = states.join(",");
  else delete read.state;
  return read;
}

export function statesOf(search: JobSearch): JobState[] {
  const named = (search.state ?? "").split(",");
  return JOB_STATES.filter((state) => named.includes(state));
}

export function filtersOf(search: JobSearch): JobFilters {
  const period = PERIODS[search.within ?? ""];
  // To the minute: the same list is not asked for again in each instant.
  const since = period && Math.floor(Date.now() / MINUTE) * MINUTE - period.hours * 60 * MINUTE;
  return {
    state: statesOf(search),
    tenant: search.tenant,
    virtual_cluster: search.vc,
    // An address may hold anything; the server says what it does not know.
    guarantee: search.guarantee as JobFilters["guarantee"],
    gpu_model: search.model,
    submitted_by: search.by,
    label: search.label,
    failure: search.failure,
    since: since === undefined ? undefined : new Date(since).toISOString(),
    array: search.array ? Number(search.array) : undefined,
    q: search.q,
  };
}

/** Whether a search narrows the list down. What an address says that is no filter, such as an unknown state, does not. */
export function isFiltered(search: JobSearch): boolean {
  return Object.values(filtersOf(search)).some((value) => (Array.isArray(value) ? value.length > 0 : value));
}
