/** Secrets of jobs: which there are, and what sets and removes them. What they are is never read. */

import { queryOptions } from "@tanstack/react-query";

import { answerOf, api, everyPage } from "@/api/client";

/** Of a tenant, or (null) one's own. */
export type SecretOwner = string | null;

export const secretsQuery = (owner: SecretOwner) =>
  queryOptions({
    queryKey: ["secrets", owner ?? ""],
    queryFn: ({ signal }) =>
      everyPage((query) =>
        answerOf(
          owner === null
            ? api.GET("/secrets", { params: { query }, signal })
            : api.GET("/tenants/{name}/secrets", { params: { path: { name: owner }, query }, signal }),
        ),
      ),
  });

export const setSecret = (owner: SecretOwner, name: string, value: string) =>
  answerOf(
    owner === null
      ? api.PUT("/secrets/{name}", { params: { path: { name } }, body: { value } })
      : api.PUT("/tenants/{name}/secrets/{secret}", {
          params: { path: { name: owner, secret: name } },
          body: { value },
        }),
  );

export const deleteSecret = (owner: SecretOwner, name: string) =>
  answerOf(
    owner === null
      ? api.DELETE("/secrets/{name}", { params: { path: { name } } })
      : api.DELETE("/tenants/{name}/secrets/{secret}", { params: { path: { name: owner, secret: name } } }),
  );
