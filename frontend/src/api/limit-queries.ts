/** What the pages read and change about the limits of a tenant's members. */

import { queryOptions } from "@tanstack/react-query";

import { answerOf, api, everyPage } from "@/api/client";
import { type Edition, editionQuery } from "@/api/edition";
import type { BudgetInputRequest, UserQuotaInputRequest } from "@/api/schema";

/** Of the members that have limits; who is no admin of the tenant sees his own. */
export const userLimitsQuery = (tenant: string) =>
  queryOptions({
    queryKey: ["tenants", tenant, "user-limits"],
    queryFn: ({ signal }) =>
      everyPage((query) =>
        answerOf(api.GET("/tenants/{name}/user-limits", { params: { path: { name: tenant }, query }, signal })),
      ),
  });

export const userQuotaQuery = (tenant: string, username: string) =>
  queryOptions({
    queryKey: ["tenants", tenant, "user-limits", username, "quota"],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/tenants/{name}/members/{username}/quota", { params: { path: { name: tenant, username } }, signal }),
      ),
  });

export const userBudgetQuery = (tenant: string, username: string) =>
  queryOptions({
    queryKey: ["tenants", tenant, "user-limits", username, "budget"],
    queryFn: ({ signal }) =>
      answerOf(
        api.GET("/tenants/{name}/members/{username}/budget", { params: { path: { name: tenant, username } }, signal }),
      ),
  });

export const userQuotaEdition = (tenant: string, username: string) =>
  editionQuery(["user-quota", tenant, username], () =>
    api.GET("/tenants/{name}/members/{username}/quota", { params: { path: { name: tenant, username } } }),
  );

export const userBudgetEdition = (tenant: string, username: string) =>
  editionQuery(["user-budget", tenant, username], () =>
    api.GET("/tenants/{name}/members/{username}/budget", { params: { path: { name: tenant, username } } }),
  );

/** Both together: the budget is removed where there is none. */
export async function setUserLimits(
  tenant: string,
  username: string,
  quota: UserQuotaInputRequest,
  budget: BudgetInputRequest | null,
  editions: { quota: Edition; budget: Edition },
): Promise<void> {
  const path = { name: tenant, username };
  await answerOf(
    api.PUT("/tenants/{name}/members/{username}/quota", { params: { path, header: editions.quota }, body: quota }),
  );
  const params = { path, header: editions.budget };
  if (budget) await answerOf(api.PUT("/tenants/{name}/members/{username}/budget", { params, body: budget }));
  else await answerOf(api.DELETE("/tenants/{name}/members/{username}/budget", { params }));
}
