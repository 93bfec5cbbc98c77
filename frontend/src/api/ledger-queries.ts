/** What the pages about the ledger and fairness read. */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answerOf, api, cursorOf, everyPage, queryString } from "@/api/client";

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
      answerOf(api.GET("/ledger", { params: { query: { ...filters, cursor: pageParam, page_size: 50 } }, signal })),
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
      (await answerOf(api.GET("/ledger", { params: { query: { job, page_size: most } }, signal }))).results,
  });

export const decideAgain = (line: number) =>
  answerOf(api.GET("/ledger/{line_id}/replay", { params: { path: { line_id: line } } }));

/** Shares change with every round, without a version of their own. */
const LOOK_AGAIN_MS = 10_000;

export const fairnessQuery = (virtualCluster: string) =>
  queryOptions({
    queryKey: ["fairness", virtualCluster],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/virtual-clusters/{name}/fairness", { params: { path: { name: virtualCluster } }, signal })),
    refetchInterval: LOOK_AGAIN_MS,
  });

export const fairnessHistoryQuery = (virtualCluster: string, tenant: string, hours: number) =>
  queryOptions({
    queryKey: ["fairness", virtualCluster, "history", tenant, hours],
    queryFn: ({ signal }) =>
      everyPage((page) =>
        answerOf(
          api.GET("/virtual-clusters/{name}/fairness/history", {
            params: { path: { name: virtualCluster }, query: { tenant, hours, ...page } },
            signal,
          }),
        ),
      ),
    refetchInterval: 6 * LOOK_AGAIN_MS,
    placeholderData: keepPreviousData,
  });

export const violationsQuery = (virtualCluster: string) =>
  infiniteQueryOptions({
    queryKey: ["fairness", virtualCluster, "violations"],
    queryFn: ({ signal, pageParam }) =>
      answerOf(
        api.GET("/fairness/violations", {
          params: { query: { virtual_cluster: virtualCluster, cursor: pageParam, page_size: 20 } },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    refetchInterval: 3 * LOOK_AGAIN_MS,
  });
