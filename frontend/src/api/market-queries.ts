/** What the market's page reads and changes. Everything starts with "market", so that one word makes it stale. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { cursorOf, newIdempotencyKey, queryString, request } from "@/api/client";
import type { Account, Allowance, Loan, Lot, Offer, Rule, Transfer } from "@/api/market-types";
import { everyPage } from "@/api/queries";
import type { Page } from "@/api/types";

/** What an offer that has begun would cost falls all the time. */
const LOOK_AGAIN_MS = 20_000;

export const openOffersQuery = queryOptions({
  queryKey: ["market", "offers"],
  queryFn: ({ signal }) => everyPage<Offer>(null, "/market/offers?state=open", signal),
  refetchInterval: LOOK_AGAIN_MS,
});

/** Those that have not ended. */
export const loansQuery = queryOptions({
  queryKey: ["market", "loans"],
  queryFn: async ({ signal }) => {
    const [coming, active] = await Promise.all(
      ["coming", "active"].map((state) => everyPage<Loan>(null, `/market/loans?state=${state}`, signal)),
    );
    return [...(active ?? []), ...(coming ?? [])];
  },
  refetchInterval: LOOK_AGAIN_MS,
});

export const endedLoansQuery = infiniteQueryOptions({
  queryKey: ["market", "loans", "ended"],
  queryFn: ({ signal, pageParam }) =>
    request<Page<Loan>>("GET", `/market/loans${queryString({ state: "ended", cursor: pageParam, page_size: 20 })}`, {
      signal,
    }),
  initialPageParam: "",
  getNextPageParam: (page) => cursorOf(page.next),
});

export const rulesQuery = queryOptions({
  queryKey: ["market", "rules"],
  queryFn: ({ signal }) => everyPage<Rule>(null, "/market/rules", signal),
});

export const accountsQuery = queryOptions({
  queryKey: ["market", "accounts"],
  queryFn: ({ signal }) => everyPage<Account>(null, "/market/accounts", signal),
});

export const transfersQuery = (virtualCluster: string) =>
  infiniteQueryOptions({
    queryKey: ["market", "transfers", virtualCluster],
    queryFn: ({ signal, pageParam }) =>
      request<Page<Transfer>>(
        "GET",
        `/market/transfers${queryString({ virtual_cluster: virtualCluster, cursor: pageParam, page_size: 50 })}`,
        { signal },
      ),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
  });

/** Where the browser finds the file. */
export function transfersAddress(virtualCluster: string): string {
  return `/api/v1/market/transfers/export${queryString({ virtual_cluster: virtualCluster })}`;
}

export interface NewOffer {
  virtual_cluster: string;
  lot: Lot;
  starts_at?: string;
  ends_at: string;
  price_per_gpu_hour: number;
  in_return?: Lot;
}

const post = <T>(path: string, body: object) =>
  request<T>("POST", `/market/${path}`, { body, idempotencyKey: newIdempotencyKey() });

export const makeOffer = (offer: NewOffer) => post<Offer>("offers", offer);
export const withdrawOffer = (id: number) => post<Offer>(`offers/${id}/withdraw`, {});
export const takeOffer = (id: number, virtualCluster: string) =>
  post<Loan>(`offers/${id}/take`, { virtual_cluster: virtualCluster });
export const endLoan = (id: number) => post<Loan>(`loans/${id}/end`, {});

export type NewRule = Partial<Omit<Rule, "id" | "lot" | "made_by" | "made_at" | "may_delete">> &
  Pick<Rule, "virtual_cluster" | "kind"> & { lot?: Lot };

export const makeRule = (rule: NewRule) => post<Rule>("rules", rule);
export const deleteRule = (id: number) => request<undefined>("DELETE", `/market/rules/${id}`);

export const grantCredits = (virtualCluster: string, credits: number, reason: string) =>
  post<Account>(`accounts/${virtualCluster}/grant`, { credits, reason });

/** Null: no more allowance. */
export const setAllowance = (
  virtualCluster: string,
  allowance: Pick<Allowance, "credits" | "every_seconds"> | null,
): Promise<unknown> =>
  allowance
    ? request<Account>("PUT", `/market/accounts/${virtualCluster}/allowance`, { body: allowance })
    : request<undefined>("DELETE", `/market/accounts/${virtualCluster}/allowance`);
