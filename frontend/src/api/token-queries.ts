/** What the pages read and change about API tokens. */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { cursorOf, newIdempotencyKey, queryString, request } from "@/api/client";
import { everyPage } from "@/api/queries";
import type { NewToken, Page, Scope, Token, TokenTerms } from "@/api/types";

/** One's own. */
export const tokensQuery = queryOptions({
  queryKey: ["tokens"],
  queryFn: ({ signal }) => everyPage<Token>(null, "/tokens", signal),
});

/** Everybody's, or one user's; for operators. */
export const everybodysTokensQuery = (user: string) =>
  infiniteQueryOptions({
    queryKey: ["tokens", "everybody", user],
    queryFn: ({ signal, pageParam }) =>
      request<Page<Token>>("GET", `/tokens${queryString({ everybody: "true", user, cursor: pageParam })}`, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    placeholderData: keepPreviousData,
  });

export const tokenTermsQuery = queryOptions({
  queryKey: ["tokens", "terms"],
  queryFn: ({ signal }) => request<TokenTerms>("GET", "/tokens/terms", { signal }),
});

/** `days` null: it never expires. */
export const createToken = (wanted: { name: string; scopes: readonly Scope[]; days: number | null }) =>
  request<NewToken>("POST", "/tokens", {
    body: { name: wanted.name, scopes: wanted.scopes, expires_in_days: wanted.days },
    idempotencyKey: newIdempotencyKey(),
  });

export const rotateToken = (key: string, overlapSeconds: number) =>
  request<NewToken>("POST", `/tokens/${key}/rotate`, {
    body: { overlap_seconds: overlapSeconds },
    idempotencyKey: newIdempotencyKey(),
  });

export const revokeToken = (key: string) => request<undefined>("DELETE", `/tokens/${key}`);
