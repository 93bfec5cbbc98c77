/** What the pages about throughputs and targets read and change. Everything starts with "throughputs". */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answerOf, api, cursorOf, once, queryString } from "@/api/client";
import type { CorrectionInputRequest, ImportInputRequest } from "@/api/schema";

export interface ThroughputFilters {
  tenant?: string | undefined;
  application?: string | undefined;
  gpu_model?: string | undefined;
  /** "true": only what was measured beside a partner. */
  partners?: "true" | undefined;
}

export const throughputsQuery = (filters: ThroughputFilters) =>
  infiniteQueryOptions({
    queryKey: ["throughputs", "list", filters],
    queryFn: ({ signal, pageParam }) =>
      answerOf(
        api.GET("/throughputs", {
          params: {
            query: { ...filters, partners: filters.partners && true, cursor: pageParam, page_size: 50 },
          },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    placeholderData: keepPreviousData,
  });

export const jobThroughputsQuery = (id: number) =>
  queryOptions({
    queryKey: ["throughputs", "job", id],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/jobs/{job_id}/throughputs", { params: { path: { job_id: id } }, signal })),
  });

export const interferenceQuery = queryOptions({
  queryKey: ["throughputs", "interference"],
  queryFn: ({ signal }) => answerOf(api.GET("/throughputs/interference", { signal })),
});

export const correctThroughput = (body: CorrectionInputRequest) =>
  answerOf(api.PUT("/throughputs/correction", { body }));

type Corrected = Omit<CorrectionInputRequest, "value" | "reason">;

export const removeCorrection = ({ tenant, application, gpus, spread, partner, gpu_model }: Corrected) =>
  answerOf(
    api.DELETE("/throughputs/correction", {
      params: { query: { tenant, application, gpu_model, gpus, spread, partner } },
    }),
  );

export const importThroughputs = (body: ImportInputRequest) =>
  answerOf(api.POST("/throughputs/import", { params: { header: once() }, body }));

/** Where the browser finds the file. */
export function exportAddress(tenant: string, layout: "csv" | "gavel"): string {
  return `/api/v1/throughputs/export${queryString({ tenant, layout })}`;
}

/** Shares change with every lease, without a version of their own. */
const LOOK_AGAIN_MS = 10_000;

export const targetsQuery = (virtualCluster: string) =>
  queryOptions({
    queryKey: ["throughputs", "targets", virtualCluster],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/virtual-clusters/{name}/targets", { params: { path: { name: virtualCluster } }, signal })),
    refetchInterval: LOOK_AGAIN_MS,
  });

export const jobTargetsQuery = (virtualCluster: string) =>
  infiniteQueryOptions({
    queryKey: ["throughputs", "targets", virtualCluster, "jobs"],
    queryFn: ({ signal, pageParam }) =>
      answerOf(
        api.GET("/virtual-clusters/{name}/targets/jobs", {
          params: { path: { name: virtualCluster }, query: { cursor: pageParam, page_size: 50 } },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    refetchInterval: LOOK_AGAIN_MS,
  });
