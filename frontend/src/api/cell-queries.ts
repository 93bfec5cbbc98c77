/** What the pages about cells read. Everything starts with "cells", so that one word makes it stale together. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import type { Advice, Anomalies, CellNode, Cells, VirtualClusterCells, WholeAdvice } from "@/api/cell-types";
import { cursorOf, newIdempotencyKey, queryString, request } from "@/api/client";
import type { Page } from "@/api/types";

/** Cells of one parent that are asked for at a time. */
export const CELLS_PER_PAGE = 50;
const LOOK_AGAIN_MS = 1000;

export const cellsQuery = queryOptions({
  queryKey: ["cells"],
  queryFn: ({ signal }) => request<Cells>("GET", "/cells", { signal }),
});

/** The children of the cell at an address; without one, the topmost cells of the chain. */
export const cellTreeQuery = (chain: string, at: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ["cells", "tree", chain, at ?? ""],
    queryFn: ({ signal, pageParam }) =>
      request<Page<CellNode>>(
        "GET",
        `/cells/tree${queryString({ chain, at, cursor: pageParam, page_size: CELLS_PER_PAGE })}`,
        { signal },
      ),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
  });

export const virtualClusterCellsQuery = (name: string) =>
  queryOptions({
    queryKey: ["cells", "of", name],
    queryFn: ({ signal }) => request<VirtualClusterCells>("GET", `/virtual-clusters/${name}/cells`, { signal }),
  });

const anomaliesPath = (name: string) => `/virtual-clusters/${name}/anomalies`;

/** What was measured last; looked at again while it is being measured anew. */
export const anomaliesQuery = (name: string) =>
  queryOptions({
    queryKey: ["anomalies", name],
    queryFn: ({ signal }) => request<Anomalies>("GET", anomaliesPath(name), { signal }),
    refetchInterval: ({ state }) => (state.data?.state === "waiting" ? LOOK_AGAIN_MS : false),
  });

export function measureAnomalies(name: string, hours: number): Promise<Anomalies> {
  return request<Anomalies>("POST", anomaliesPath(name), { body: { hours }, idempotencyKey: newIdempotencyKey() });
}

export const adviceListQuery = queryOptions({
  queryKey: ["advice"],
  queryFn: async ({ signal }) => (await request<Page<Advice>>("GET", "/cells/advice", { signal })).results,
});

/** Looked at again until it is made. */
export const adviceQuery = (id: string) =>
  queryOptions({
    queryKey: ["advice", id],
    queryFn: ({ signal }) => request<WholeAdvice>("GET", `/cells/advice/${id}`, { signal }),
    refetchInterval: ({ state }) =>
      state.data?.state === "waiting" || state.data?.state === "running" ? LOOK_AGAIN_MS : false,
  });
