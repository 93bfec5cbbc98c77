/** What the pages about cells read. Everything starts with "cells", so that one word makes it stale together. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { answerOf, api, cursorOf, once } from "@/api/client";

/** Cells of one parent that are asked for at a time. */
export const CELLS_PER_PAGE = 50;
const LOOK_AGAIN_MS = 1000;

export const cellsQuery = queryOptions({
  queryKey: ["cells"],
  queryFn: ({ signal }) => answerOf(api.GET("/cells", { signal })),
});

/** The children of the cell at an address; without one, the topmost cells of the chain. */
export const cellTreeQuery = (chain: string, at: string | undefined) =>
  infiniteQueryOptions({
    queryKey: ["cells", "tree", chain, at ?? ""],
    queryFn: ({ signal, pageParam }) =>
      answerOf(
        api.GET("/cells/tree", {
          params: { query: { chain, at, cursor: pageParam, page_size: CELLS_PER_PAGE } },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
  });

export const virtualClusterCellsQuery = (name: string) =>
  queryOptions({
    queryKey: ["cells", "of", name],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/virtual-clusters/{name}/cells", { params: { path: { name } }, signal })),
  });

/** What was measured last; looked at again while it is being measured anew. */
export const anomaliesQuery = (name: string) =>
  queryOptions({
    queryKey: ["anomalies", name],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/virtual-clusters/{name}/anomalies", { params: { path: { name } }, signal })),
    refetchInterval: ({ state }) => (state.data?.state === "waiting" ? LOOK_AGAIN_MS : false),
  });

export const measureAnomalies = (name: string, hours: number) =>
  answerOf(
    api.POST("/virtual-clusters/{name}/anomalies", { params: { path: { name }, header: once() }, body: { hours } }),
  );

export const adviceListQuery = queryOptions({
  queryKey: ["advice"],
  queryFn: async ({ signal }) => (await answerOf(api.GET("/cells/advice", { signal }))).results,
});

/** Looked at again until it is made. */
export const adviceQuery = (id: string) =>
  queryOptions({
    queryKey: ["advice", id],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/cells/advice/{advice_id}", { params: { path: { advice_id: id } }, signal })),
    refetchInterval: ({ state }) =>
      state.data?.state === "waiting" || state.data?.state === "running" ? LOOK_AGAIN_MS : false,
  });
