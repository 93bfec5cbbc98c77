/** What the market's page reads and changes. Everything starts with "market", so that one word makes it stale. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { answerOf, api, cursorOf, everyPage, once, queryString } from "@/api/client";
import type { AllowanceInputRequest, LoanState, OfferInputRequest, RuleInputRequest } from "@/api/schema";

/** What an offer that has begun would cost falls all the time. */
const LOOK_AGAIN_MS = 20_000;

export const openOffersQuery = queryOptions({
  queryKey: ["market", "offers"],
  queryFn: ({ signal }) =>
    everyPage((page) => answerOf(api.GET("/market/offers", { params: { query: { state: "open", ...page } }, signal }))),
  refetchInterval: LOOK_AGAIN_MS,
});

/** Those that have not ended. */
export const loansQuery = queryOptions({
  queryKey: ["market", "loans"],
  queryFn: async ({ signal }) => {
    const inState = (state: LoanState) =>
      everyPage((page) => answerOf(api.GET("/market/loans", { params: { query: { state, ...page } }, signal })));
    return (await Promise.all([inState("active"), inState("coming")])).flat();
  },
  refetchInterval: LOOK_AGAIN_MS,
});

export const endedLoansQuery = infiniteQueryOptions({
  queryKey: ["market", "loans", "ended"],
  queryFn: ({ signal, pageParam }) =>
    answerOf(
      api.GET("/market/loans", { params: { query: { state: "ended", cursor: pageParam, page_size: 20 } }, signal }),
    ),
  initialPageParam: "",
  getNextPageParam: (page) => cursorOf(page.next),
});

export const rulesQuery = queryOptions({
  queryKey: ["market", "rules"],
  queryFn: ({ signal }) => everyPage((query) => answerOf(api.GET("/market/rules", { params: { query }, signal }))),
});

export const accountsQuery = queryOptions({
  queryKey: ["market", "accounts"],
  queryFn: ({ signal }) => everyPage((query) => answerOf(api.GET("/market/accounts", { params: { query }, signal }))),
});

export const transfersQuery = (virtualCluster: string) =>
  infiniteQueryOptions({
    queryKey: ["market", "transfers", virtualCluster],
    queryFn: ({ signal, pageParam }) =>
      answerOf(
        api.GET("/market/transfers", {
          params: { query: { virtual_cluster: virtualCluster, cursor: pageParam, page_size: 50 } },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
  });

/** Where the browser finds the file. */
export function transfersAddress(virtualCluster: string): string {
  return `/api/v1/market/transfers/export${queryString({ virtual_cluster: virtualCluster })}`;
}

export const makeOffer = (body: OfferInputRequest) =>
  answerOf(api.POST("/market/offers", { params: { header: once() }, body }));

export const withdrawOffer = (id: number) =>
  answerOf(api.POST("/market/offers/{offer_id}/withdraw", { params: { path: { offer_id: id }, header: once() } }));

export const takeOffer = (id: number, virtualCluster: string) =>
  answerOf(
    api.POST("/market/offers/{offer_id}/take", {
      params: { path: { offer_id: id }, header: once() },
      body: { virtual_cluster: virtualCluster },
    }),
  );

export const endLoan = (id: number) =>
  answerOf(api.POST("/market/loans/{loan_id}/end", { params: { path: { loan_id: id }, header: once() } }));

export const makeRule = (body: RuleInputRequest) =>
  answerOf(api.POST("/market/rules", { params: { header: once() }, body }));

export const deleteRule = (id: number) =>
  answerOf(api.DELETE("/market/rules/{rule_id}", { params: { path: { rule_id: id } } }));

export const grantCredits = (virtualCluster: string, credits: number, reason: string) =>
  answerOf(
    api.POST("/market/accounts/{virtual_cluster}/grant", {
      params: { path: { virtual_cluster: virtualCluster }, header: once() },
      body: { credits, reason },
    }),
  );

/** Null: no more allowance. */
export async function setAllowance(virtualCluster: string, allowance: AllowanceInputRequest | null): Promise<void> {
  const params = { path: { virtual_cluster: virtualCluster } };
  if (allowance) await answerOf(api.PUT("/market/accounts/{virtual_cluster}/allowance", { params, body: allowance }));
  else await answerOf(api.DELETE("/market/accounts/{virtual_cluster}/allowance", { params }));
}
