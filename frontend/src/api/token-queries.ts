/** What the pages read and change about API tokens. */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answerOf, api, once } from "@/api/client";
import { cursorOf, everyPage } from "@/api/pages";
import type { TokenInputRequest } from "@/api/schema";

/** One's own. */
export const tokensQuery = queryOptions({
  queryKey: ["tokens"],
  queryFn: ({ signal }) => everyPage((query) => answerOf(api.GET("/tokens", { params: { query }, signal }))),
});

/** Everybody's, or one user's; for operators. */
export const everybodysTokensQuery = (user: string) =>
  infiniteQueryOptions({
    queryKey: ["tokens", "everybody", user],
    queryFn: ({ signal, pageParam }) =>
      answerOf(api.GET("/tokens", { params: { query: { everybody: true, user, cursor: pageParam } }, signal })),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    placeholderData: keepPreviousData,
  });

export const tokenTermsQuery = queryOptions({
  queryKey: ["tokens", "terms"],
  queryFn: ({ signal }) => answerOf(api.GET("/tokens/terms", { signal })),
});

/** `expires_in_days` null: it never expires. */
export const createToken = (body: TokenInputRequest) =>
  answerOf(api.POST("/tokens", { params: { header: once() }, body }));

export const rotateToken = (key: string, overlapSeconds: number) =>
  answerOf(
    api.POST("/tokens/{key}/rotate", {
      params: { path: { key }, header: once() },
      body: { overlap_seconds: overlapSeconds },
    }),
  );

export const revokeToken = (key: string) => answerOf(api.DELETE("/tokens/{key}", { params: { path: { key } } }));
