/** What the card about elasticity reads. */

import { queryOptions } from "@tanstack/react-query";

import { answerOf, api, once } from "@/api/client";

const LOOK_AGAIN_MS = 1000;

/** What was asked last; looked at again until it is answered. Null: nobody has asked yet. */
export const elasticitySavingsQuery = queryOptions({
  queryKey: ["elasticity-savings"],
  queryFn: async ({ signal }) =>
    (await answerOf(api.GET("/elasticity-savings", { params: { query: { page_size: 1 } }, signal }))).results[0] ??
    null,
  refetchInterval: ({ state }) =>
    state.data?.state === "waiting" || state.data?.state === "running" ? LOOK_AGAIN_MS : false,
});

export const askElasticitySavings = (days: number) =>
  answerOf(api.POST("/elasticity-savings", { params: { header: once() }, body: { days } }));
