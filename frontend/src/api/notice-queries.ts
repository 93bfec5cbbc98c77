/** What the pages read and change about notifications, webhooks and budgets. */

import { infiniteQueryOptions, queryOptions } from "@tanstack/react-query";

import { answerOf, api, cursorOf, everyPage, once } from "@/api/client";
import { type Edition, editionQuery } from "@/api/edition";
import type {
  BudgetInputRequest,
  PatchedNotificationChangeRequest,
  PatchedWebhookChangeRequest,
  UsageSubscriptionInputRequest,
  WebhookInputRequest,
} from "@/api/schema";

/** Tries go on by themselves, and budgets are used up. */
const LOOK_AGAIN_MS = 5_000;

export const notificationsQuery = queryOptions({
  queryKey: ["notifications"],
  queryFn: ({ signal }) => answerOf(api.GET("/notifications", { signal })),
});

export const changeNotifications = (body: PatchedNotificationChangeRequest) =>
  answerOf(api.PATCH("/notifications", { body }));

/** The usage reports that one gets by mail. */
export const usageReportsQuery = queryOptions({
  queryKey: ["usage-reports"],
  queryFn: ({ signal }) =>
    everyPage((query) => answerOf(api.GET("/notifications/reports", { params: { query }, signal }))),
});

export const setUsageReport = (body: UsageSubscriptionInputRequest) =>
  answerOf(api.POST("/notifications/reports", { body }));

export const setAddress = (address: string) => answerOf(api.PUT("/notifications/address", { body: { address } }));

export const confirmAddress = (token: string) =>
  answerOf(api.POST("/notifications/address/confirm", { body: { token } }));

export const budgetQuery = (tenant: string) =>
  queryOptions({
    queryKey: ["budget", tenant],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/tenants/{name}/budget", { params: { path: { name: tenant } }, signal })),
    refetchInterval: 2 * LOOK_AGAIN_MS,
  });

/** The terms of all budgets that the viewer may see. */
export const budgetsQuery = queryOptions({
  queryKey: ["budget"],
  queryFn: ({ signal }) => everyPage((query) => answerOf(api.GET("/budgets", { params: { query }, signal }))),
});

export const budgetEdition = (tenant: string) =>
  editionQuery(["budget", tenant], () => api.GET("/tenants/{name}/budget", { params: { path: { name: tenant } } }));

/** Null: no more budget. */
export async function setBudget(tenant: string, terms: BudgetInputRequest | null, header: Edition): Promise<void> {
  const params = { path: { name: tenant }, header };
  if (terms) await answerOf(api.PUT("/tenants/{name}/budget", { params, body: terms }));
  else await answerOf(api.DELETE("/tenants/{name}/budget", { params }));
}

/** Of a tenant, or null: of the cluster. */
export const webhooksQuery = (tenant: string | null) =>
  queryOptions({
    queryKey: ["webhooks", "of", tenant],
    queryFn: ({ signal }) =>
      everyPage((page) =>
        answerOf(api.GET("/webhooks", { params: { query: { tenant: tenant ?? undefined, ...page } }, signal })),
      ),
  });

export const webhookQuery = (id: number) =>
  queryOptions({
    queryKey: ["webhooks", id],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/webhooks/{webhook_id}", { params: { path: { webhook_id: id } }, signal })),
    refetchInterval: LOOK_AGAIN_MS,
  });

export const deliveriesQuery = (id: number) =>
  infiniteQueryOptions({
    queryKey: ["webhooks", id, "deliveries"],
    queryFn: ({ signal, pageParam }) =>
      answerOf(
        api.GET("/webhooks/{webhook_id}/deliveries", {
          params: { path: { webhook_id: id }, query: { cursor: pageParam, page_size: 50 } },
          signal,
        }),
      ),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    refetchInterval: LOOK_AGAIN_MS,
  });

export const addWebhook = (body: WebhookInputRequest) =>
  answerOf(api.POST("/webhooks", { params: { header: once() }, body }));

export const webhookEdition = (id: number) =>
  editionQuery(["webhooks", id], () => api.GET("/webhooks/{webhook_id}", { params: { path: { webhook_id: id } } }));

/** `header` left out: whatever else was changed meanwhile. */
export const changeWebhook = (id: number, body: PatchedWebhookChangeRequest, header: Edition = {}) =>
  answerOf(api.PATCH("/webhooks/{webhook_id}", { params: { path: { webhook_id: id }, header }, body }));

export const removeWebhook = (id: number) =>
  answerOf(api.DELETE("/webhooks/{webhook_id}", { params: { path: { webhook_id: id } } }));

export const rotateSecret = (id: number) =>
  answerOf(api.POST("/webhooks/{webhook_id}/secret", { params: { path: { webhook_id: id } } }));

export const testWebhook = (id: number) =>
  answerOf(api.POST("/webhooks/{webhook_id}/test", { params: { path: { webhook_id: id } } }));

export const redeliver = (id: number, delivery: number) =>
  answerOf(
    api.POST("/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver", {
      params: { path: { webhook_id: id, delivery_id: delivery } },
    }),
  );
