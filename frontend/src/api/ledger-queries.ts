/** What the pages about the ledger and fairness read. */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { cursorOf, queryString, request } from "@/api/client";
import type { Fairness, FairnessSample, LedgerLine, Replay, Violation } from "@/api/ledger-types";
import { everyPage } from "@/api/queries";
import type { Page } from "@/api/types";

export interface LedgerFilters {
  kind?: string | undefined;
  /** A virtual cluster, "spare" or "market". */
  view?: string | undefined;
  party?: string | undefined;
  job?: number | undefined;
  round?: number | undefined;
}

export const ledgerQuery = (filters: LedgerFilters) =>
  infiniteQueryOptions({
    queryKey: ["ledger", filters],
    queryFn: ({ signal, pageParam }) =>
      request<Page<LedgerLine>>("GET", `/ledger${queryString({ ...filters, cursor: pageParam, page_size: 50 })}`, {
        signal,
      }),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    placeholderData: keepPreviousData,
  });

/** Where the browser finds the file. */
export function ledgerAddress(filters: LedgerFilters): string {
  return `/api/v1/ledger/export${queryString({ ...filters })}`;
}

/** The newest lines of one job. */
export const jobLinesQuery = (job: number, most: number) =>
  queryOptions({
    queryKey: ["ledger", "job", job],
    queryFn: async ({ signal }) =>
      (await request<Page<LedgerLine>>("GET", `/ledger${queryString({ job, page_size: most })}`, { signal })).results,
  });

export function decideAgain(line: number): Promise<Replay> {
  return request<Replay>("GET", `/ledger/${line}/replay`);
}

/** Shares change with every round, without a version of their own. */
const LOOK_AGAIN_MS = 10_000;

const fairnessPath = (virtualCluster: string) => `/virtual-clusters/${virtualCluster}/fairness`;

export const fairnessQuery = (virtualCluster: string) =>
  queryOptions({
    queryKey: ["fairness", virtualCluster],
    queryFn: ({ signal }) => request<Fairness>("GET", fairnessPath(virtualCluster), { signal }),
    refetchInterval: LOOK_AGAIN_MS,
  });

export const fairnessHistoryQuery = (virtualCluster: string, tenant: string, hours: number) =>
  queryOptions({
    queryKey: ["fairness", virtualCluster, "history", tenant, hours],
    queryFn: ({ signal }) =>
      everyPage<FairnessSample>(
        null,
        `${fairnessPath(virtualCluster)}/history${queryString({ tenant, hours })}`,
        signal,
      ),
    refetchInterval: 6 * LOOK_AGAIN_MS,
    placeholderData: keepPreviousData,
  });

export const violationsQuery = (virtualCluster: string) =>
  infiniteQueryOptions({
    queryKey: ["fairness", virtualCluster, "violations"],
    queryFn: ({ signal, pageParam }) =>
      request<Page<Violation>>(
        "GET",
        `/fairness/violations${queryString({ virtual_cluster: virtualCluster, cursor: pageParam, page_size: 20 })}`,
        { signal },
      ),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    refetchInterval: 3 * LOOK_AGAIN_MS,
  });
