/** What jobs and nodes used over time. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { queryString, request } from "@/api/client";
import type { JobMetrics, Metrics } from "@/api/usage-types";

/** Readings come about every ten seconds. */
const LOOK_AGAIN_MS = 10_000;

export interface Wanted {
  by: string;
  /** How long until now; undefined: all there is, or of a node the last hour. */
  seconds?: number | undefined;
}

export const jobMetricsQuery = (id: number, wanted: Wanted, isRunning: boolean) =>
  queryOptions({
    queryKey: ["usage", "job", id, wanted],
    queryFn: ({ signal }) => request<JobMetrics>("GET", `/jobs/${id}/metrics${asked(wanted)}`, { signal }),
    refetchInterval: isRunning ? LOOK_AGAIN_MS : false,
    placeholderData: keepPreviousData,
  });

export const nodeMetricsQuery = (name: string, wanted: Wanted) =>
  queryOptions({
    queryKey: ["usage", "node", name, wanted],
    queryFn: ({ signal }) => request<Metrics>("GET", `/nodes/${name}/metrics${asked(wanted)}`, { signal }),
    refetchInterval: LOOK_AGAIN_MS,
    placeholderData: keepPreviousData,
  });

function asked({ by, seconds }: Wanted): string {
  const since = seconds === undefined ? undefined : new Date(Date.now() - seconds * 1000).toISOString();
  return queryString({ by, since });
}
