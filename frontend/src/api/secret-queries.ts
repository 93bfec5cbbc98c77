/** Secrets of jobs: which there are. What they are is never read. */

import { queryOptions } from "@tanstack/react-query";

import { everyPage } from "@/api/queries";
import type { components } from "@/api/schema";

export type Secret = components["schemas"]["SecretOutput"];

/** Of a tenant, or (null) one's own. */
export type SecretOwner = string | null;

export function secretsPath(owner: SecretOwner): string {
  return owner === null ? "/secrets" : `/tenants/${owner}/secrets`;
}

export const secretsQuery = (owner: SecretOwner) =>
  queryOptions({
    queryKey: ["secrets", owner ?? ""],
    queryFn: ({ signal }) => everyPage<Secret>(null, secretsPath(owner), signal),
  });
