/** What jobs and nodes used over time. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answerOf, api } from "@/api/client";

/** Readings come about every ten seconds. */
const LOOK_AGAIN_MS = 10_000;

export interface Wanted<By> {
  by: By;
  /** How long until now; undefined: all there is, or of a node the last hour. */
  seconds?: number | undefined;
}

export const jobMetricsQuery = (id: number, wanted: Wanted<"attempt" | "gpu" | "rank">, isRunning: boolean) =>
  queryOptions({
    queryKey: ["usage", "job", id, wanted],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/jobs/{job_id}/metrics", { params: { path: { job_id: id }, query: asked(wanted) }, signal })),
    refetchInterval: isRunning ? LOOK_AGAIN_MS : false,
    placeholderData: keepPreviousData,
  });

export const nodeMetricsQuery = (name: string, wanted: Wanted<"node" | "gpu">) =>
  queryOptions({
    queryKey: ["usage", "node", name, wanted],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/nodes/{name}/metrics", { params: { path: { name }, query: asked(wanted) }, signal })),
    refetchInterval: LOOK_AGAIN_MS,
    placeholderData: keepPreviousData,
  });

function asked<By>({ by, seconds }: Wanted<By>) {
  const since = seconds === undefined ? undefined : new Date(Date.now() - seconds * 1000).toISOString();
  return { by, since };
}
