/** What the pages about speeds and targets read and change. Everything starts with "speeds". */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answerOf, api, once, queryString } from "@/api/client";
import { cursorOf } from "@/api/pages";
import type { CorrectionInputRequest, ImportInputRequest } from "@/api/schema";

export interface SpeedFilters {
  tenant?: string | undefined;
  application?: string | undefined;
  gpu_model?: string | undefined;
  /** "true": only what was measured beside a partner. */
  partners?: "true" | undefined;
}

export const speedsQuery = (filters: SpeedFilters) =>
  infiniteQueryOptions({
    queryKey: ["speeds", "list", filters],
    queryFn: ({ signal, pageParam }) =>
      answerOf(
        api.GET("/speeds", {
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

export const jobSpeedsQuery = (id: number) =>
  queryOptions({
    queryKey: ["speeds", "job", id],
    queryFn: ({ signal }) => answerOf(api.GET("/jobs/{job_id}/speeds", { params: { path: { job_id: id } }, signal })),
  });

export const correctSpeed = (body: CorrectionInputRequest) => answerOf(api.PUT("/speeds/correction", { body }));

type Corrected = Omit<CorrectionInputRequest, "value" | "reason">;

export const removeCorrection = ({ tenant, application, gpus, spread, partner, gpu_model }: Corrected) =>
  answerOf(
    api.DELETE("/speeds/correction", {
      params: { query: { tenant, application, gpu_model, gpus, spread, partner } },
    }),
  );

export const importSpeeds = (body: ImportInputRequest) =>
  answerOf(api.POST("/speeds/import", { params: { header: once() }, body }));

/** Where the browser finds the file. */
export function exportAddress(tenant: string, layout: "csv" | "gavel"): string {
  return `/api/v1/speeds/export${queryString({ tenant, layout })}`;
}

/** Shares change with every lease, without a version of their own. */
const LOOK_AGAIN_MS = 10_000;

export const targetsQuery = (virtualCluster: string) =>
  queryOptions({
    queryKey: ["speeds", "targets", virtualCluster],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/virtual-clusters/{name}/targets", { params: { path: { name: virtualCluster } }, signal })),
    refetchInterval: LOOK_AGAIN_MS,
  });

export const jobTargetsQuery = (virtualCluster: string) =>
  infiniteQueryOptions({
    queryKey: ["speeds", "targets", virtualCluster, "jobs"],
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
