/** What the pages read and change about the limits of a tenant's members. */

import { queryOptions } from "@tanstack/react-query";

import { answerOf, api, everyPage } from "@/api/client";
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

/** Both together: the budget is removed where there is none. */
export async function setUserLimits(
  tenant: string,
  username: string,
  quota: UserQuotaInputRequest,
  budget: BudgetInputRequest | null,
): Promise<void> {
  const params = { path: { name: tenant, username } };
  await answerOf(api.PUT("/tenants/{name}/members/{username}/quota", { params, body: quota }));
  if (budget) await answerOf(api.PUT("/tenants/{name}/members/{username}/budget", { params, body: budget }));
  else await answerOf(api.DELETE("/tenants/{name}/members/{username}/budget", { params }));
}
