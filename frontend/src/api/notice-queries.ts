/** What the pages read and change about notifications, webhooks and budgets. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { cursorOf, newIdempotencyKey, queryString, request } from "@/api/client";
import type {
  AddressAnswer,
  BudgetState,
  BudgetTerms,
  Delivery,
  NewWebhook,
  NotificationSettings,
  Webhook,
} from "@/api/notice-types";
import { everyPage } from "@/api/queries";
import type { Page } from "@/api/types";

/** Tries go on by themselves, and budgets are used up. */
const LOOK_AGAIN_MS = 5_000;

export const notificationsQuery = queryOptions({
  queryKey: ["notifications"],
  queryFn: ({ signal }) => request<NotificationSettings>("GET", "/notifications", { signal }),
});

export const changeNotifications = (changes: Partial<Pick<NotificationSettings, "jobs" | "tenants" | "cluster">>) =>
  request<NotificationSettings>("PATCH", "/notifications", { body: changes });

export const setAddress = (address: string) =>
  request<AddressAnswer>("PUT", "/notifications/address", { body: { address } });

export const confirmAddress = (token: string) =>
  request<AddressAnswer>("POST", "/notifications/address/confirm", { body: { token } });

export const budgetQuery = (tenant: string) =>
  queryOptions({
    queryKey: ["budget", tenant],
    queryFn: ({ signal }) => request<BudgetState>("GET", `/tenants/${tenant}/budget`, { signal }),
    refetchInterval: 2 * LOOK_AGAIN_MS,
  });

export const setBudget = (tenant: string, terms: Omit<BudgetTerms, "starts_at"> | null) =>
  terms
    ? request<BudgetState>("PUT", `/tenants/${tenant}/budget`, { body: terms })
    : request<undefined>("DELETE", `/tenants/${tenant}/budget`);

/** Of a tenant, or null: of the cluster. */
export const webhooksQuery = (tenant: string | null) =>
  queryOptions({
    queryKey: ["webhooks", "of", tenant],
    queryFn: ({ signal }) => everyPage<Webhook>(null, `/webhooks${queryString({ tenant: tenant ?? "" })}`, signal),
  });

export const webhookQuery = (id: number) =>
  queryOptions({
    queryKey: ["webhooks", id],
    queryFn: ({ signal }) => request<Webhook>("GET", `/webhooks/${id}`, { signal }),
    refetchInterval: LOOK_AGAIN_MS,
  });

export const deliveriesQuery = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["webhooks", id, "deliveries"],
    queryFn: ({ signal, pageParam }) =>
      request<Page<Delivery>>("GET", `/webhooks/${id}/deliveries${queryString({ cursor: pageParam, page_size: 50 })}`, {
        signal,
      }),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    refetchInterval: LOOK_AGAIN_MS,
  });

export interface WebhookDraft {
  url: string;
  title: string;
  topics: string[];
}

export const addWebhook = (tenant: string | null, draft: WebhookDraft) =>
  request<NewWebhook>("POST", "/webhooks", { body: { ...draft, tenant }, idempotencyKey: newIdempotencyKey() });

export const changeWebhook = (id: number, changes: Partial<WebhookDraft> & { active?: boolean }) =>
  request<Webhook>("PATCH", `/webhooks/${id}`, { body: changes });

export const removeWebhook = (id: number) => request<undefined>("DELETE", `/webhooks/${id}`);

export const rotateSecret = (id: number) => request<NewWebhook>("POST", `/webhooks/${id}/secret`);

export const testWebhook = (id: number) => request<Delivery>("POST", `/webhooks/${id}/test`);

export const redeliver = (id: number, delivery: number) =>
  request<Delivery>("POST", `/webhooks/${id}/deliveries/${delivery}/redeliver`);
