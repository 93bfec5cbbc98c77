/** Templates of a tenant: specifications that its members start from. */

import { queryOptions } from "@tanstack/react-query";

import { answerOf, api, everyPage } from "@/api/client";
import type { JobTemplateInputRequest } from "@/api/schema";

/** Which there are, by name; the specification of each is read when it is taken. */
export const templatesQuery = (tenant: string) =>
  queryOptions({
    queryKey: ["templates", tenant],
    queryFn: ({ signal }) =>
      everyPage((query) =>
        answerOf(api.GET("/tenants/{name}/templates", { params: { path: { name: tenant }, query }, signal })),
      ),
  });

export const readTemplate = (tenant: string, template: string) =>
  answerOf(api.GET("/tenants/{name}/templates/{template}", { params: { path: { name: tenant, template } } }));

/** Keeps a specification, in place of the one of that name. */
export const setTemplate = (tenant: string, template: string, summary: string, spec: Record<string, unknown>) =>
  answerOf(
    api.PUT("/tenants/{name}/templates/{template}", {
      params: { path: { name: tenant, template } },
      body: { summary, spec: spec as JobTemplateInputRequest["spec"] },
    }),
  );

export const deleteTemplate = (tenant: string, template: string) =>
  answerOf(api.DELETE("/tenants/{name}/templates/{template}", { params: { path: { name: tenant, template } } }));
