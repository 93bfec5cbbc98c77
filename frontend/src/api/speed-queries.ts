/** What the pages about speeds and targets read and change. Everything starts with "speeds". */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { cursorOf, newIdempotencyKey, queryString, request } from "@/api/client";
import type { JobSpeeds, JobTargets, SpeedImport, SpeedRow, SpeedSetting, Targets } from "@/api/speed-types";
import type { Page } from "@/api/types";

const CORRECTION = "/speeds/correction";

export interface SpeedFilters {
  tenant?: string | undefined;
  application?: string | undefined;
  gpu_model?: string | undefined;
  /** "true": only what was measured beside a partner. */
  partners?: string | undefined;
}

export const speedsQuery = (filters: SpeedFilters) =>
  infiniteQueryOptions({
    queryKey: ["speeds", "list", filters],
    queryFn: ({ signal, pageParam }) =>
      request<Page<SpeedRow>>("GET", `/speeds${queryString({ ...filters, cursor: pageParam, page_size: 50 })}`, {
        signal,
      }),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    placeholderData: keepPreviousData,
  });

export const jobSpeedsQuery = (id: number) =>
  queryOptions({
    queryKey: ["speeds", "job", id],
    queryFn: ({ signal }) => request<JobSpeeds>("GET", `/jobs/${id}/speeds`, { signal }),
  });

export function correctSpeed(
  setting: SpeedSetting & { gpu_model: string; value: number; reason: string },
): Promise<SpeedRow> {
  return request<SpeedRow>("PUT", CORRECTION, { body: setting });
}

export function removeCorrection({ tenant, application, gpus, spread, partner, gpu_model }: Corrected): Promise<void> {
  const query = queryString({ tenant, application, gpu_model, gpus, spread: String(spread), partner });
  return request<undefined>("DELETE", CORRECTION + query);
}

type Corrected = SpeedSetting & { gpu_model: string };

export function importSpeeds(body: { tenant: string; content: string; dry_run: boolean }): Promise<SpeedImport> {
  return request<SpeedImport>("POST", "/speeds/import", { body, idempotencyKey: newIdempotencyKey() });
}

/** Where the browser finds the file. */
export function exportAddress(tenant: string, layout: "csv" | "gavel"): string {
  return `/api/v1/speeds/export${queryString({ tenant, layout })}`;
}

/** Shares change with every lease, without a version of their own. */
const LOOK_AGAIN_MS = 10_000;

export const targetsQuery = (virtualCluster: string) =>
  queryOptions({
    queryKey: ["speeds", "targets", virtualCluster],
    queryFn: ({ signal }) => request<Targets>("GET", `/virtual-clusters/${virtualCluster}/targets`, { signal }),
    refetchInterval: LOOK_AGAIN_MS,
  });

export const jobTargetsQuery = (virtualCluster: string) =>
  infiniteQueryOptions({
    queryKey: ["speeds", "targets", virtualCluster, "jobs"],
    queryFn: ({ signal, pageParam }) =>
      request<Page<JobTargets>>(
        "GET",
        `/virtual-clusters/${virtualCluster}/targets/jobs${queryString({ cursor: pageParam, page_size: 50 })}`,
        { signal },
      ),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    refetchInterval: LOOK_AGAIN_MS,
  });
