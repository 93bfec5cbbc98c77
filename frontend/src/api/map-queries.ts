/** What the overview reads: of every node and active job what the map shows, and the head of the queue whole. */

import { queryOptions } from "@tanstack/react-query";

import { answerOf, api, everyPage } from "@/api/client";
import { ingest } from "@/api/queries";
import type { MapNode } from "@/api/schema";
import { live } from "@/live/live";
import { withRows } from "@/live/map-rows";

/** The stream tells what changes. A message may be lost on the way, so all is read again, but seldom. */
const AGAIN_MS = 5 * 60_000;
const PAGE_SIZE = 2000;
/** How long the first answer waits for the stream. */
const STREAM_MS = 2000;

const seldom = { staleTime: AGAIN_MS, refetchInterval: AGAIN_MS };

export const mapNodesQuery = queryOptions({
  queryKey: ["map", "nodes"],
  queryFn: async ({ signal }) => {
    await streamBegun();
    signal.throwIfAborted();
    const before = live.current().node;
    const rows = await mapNodes(signal);
    live.apply({ type: "map", merge: (state) => withRows(state, "node", rows, before) });
    return rows.length;
  },
  ...seldom,
});

export const mapJobsQuery = queryOptions({
  queryKey: ["map", "jobs"],
  queryFn: async ({ signal }) => {
    await streamBegun();
    signal.throwIfAborted();
    const before = live.current().job;
    const rows = await everyPage((query) => answerOf(api.GET("/map/jobs", { params: { query }, signal })), PAGE_SIZE);
    live.apply({ type: "map", merge: (state) => withRows(state, "job", rows, before) });
    return rows.length;
  },
  ...seldom,
});

/** The names of all nodes. Whole, thousands of nodes are megabytes. */
export const nodeNamesQuery = queryOptions({
  queryKey: ["node-names"],
  queryFn: async ({ signal }) => (await mapNodes(signal)).map(({ name }) => name),
});

function mapNodes(signal: AbortSignal): Promise<MapNode[]> {
  return everyPage((query) => answerOf(api.GET("/map/nodes", { params: { query }, signal })), PAGE_SIZE);
}

/** What is read before the stream begins is read again then. Where there is no stream, nothing waits for it. */
function streamBegun(): Promise<void> {
  return new Promise((resolve) => {
    const go = () => {
      forget();
      clearTimeout(timer);
      resolve();
    };
    const look = () => {
      if (live.status() !== "connecting") go();
    };
    const forget = live.subscribeStatus(look);
    const timer = setTimeout(go, STREAM_MS);
    look();
  });
}

/** Jobs whole, by their numbers. */
export const wholeJobsQuery = (ids: readonly number[]) =>
  queryOptions({
    queryKey: ["jobs", "whole", ids],
    queryFn: ({ signal }) =>
      ingest("job", () =>
        answerOf(api.GET("/jobs", { params: { query: { id: [...ids], page_size: ids.length } }, signal })),
      ),
    enabled: ids.length > 0,
  });
