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
  by?: string;
  /** The number of an array, of which the tasks are listed one by one. */
  array?: string;
  q?: string;
}

const KEYS = ["state", "tenant", "vc", "guarantee", "model", "by", "array", "q"] as const;

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
  return {
    state: statesOf(search),
    tenant: search.tenant,
    virtual_cluster: search.vc,
    // An address may hold anything; the server says what it does not know.
    guarantee: search.guarantee as JobFilters["guarantee"],
    gpu_model: search.model,
    submitted_by: search.by,
    array: search.array ? Number(search.array) : undefined,
    q: search.q,
  };
}
