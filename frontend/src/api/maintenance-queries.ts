/** What the calendar reads and changes. */

import { queryOptions } from "@tanstack/react-query";

import { answerOf, api, everyPage, once } from "@/api/client";
import { type Edition, editionQuery } from "@/api/edition";
import type { PatchedWindowInputRequest, WindowInputRequest } from "@/api/schema";

/** Windows that are not over. */
export const windowsQuery = queryOptions({
  queryKey: ["maintenance"],
  queryFn: ({ signal }) =>
    everyPage((page) =>
      answerOf(
        api.GET("/maintenance", { params: { query: { state: ["announced", "draining", "open"], ...page } }, signal }),
      ),
    ),
  refetchInterval: 20_000,
});

export const announceWindow = (body: WindowInputRequest) =>
  answerOf(api.POST("/maintenance", { params: { header: once() }, body }));

export const windowEdition = (id: number) =>
  editionQuery(["maintenance", id], () => api.GET("/maintenance/{window_id}", { params: { path: { window_id: id } } }));

export const changeWindow = (id: number, body: PatchedWindowInputRequest, header: Edition) =>
  answerOf(api.PATCH("/maintenance/{window_id}", { params: { path: { window_id: id }, header }, body }));

export const cancelWindow = (id: number) =>
  answerOf(api.DELETE("/maintenance/{window_id}", { params: { path: { window_id: id } } }));
