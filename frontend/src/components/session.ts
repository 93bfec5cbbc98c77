/** Who is signed in. Pages are only shown to someone who is, so there always is an answer. */

import { useQueryClient, useSuspenseQuery } from "@tanstack/react-query";

import { api } from "@/api/client";
import { meQuery } from "@/api/queries";
import type { Me, Role } from "@/api/schema";
import { live } from "@/live/live";

export function useSession(): Me {
  const { data } = useSuspenseQuery(meQuery);
  if (!data) throw new Error("No user is signed in.");
  return data;
}

/** Whether the person may submit and cancel for a tenant: members may, viewers only look. */
export function mayActFor(me: Me, tenant: string): boolean {
  return me.is_operator || me.tenants.some(({ name, role }) => name === tenant && role !== "viewer");
}

export function isAdminOf(me: Me, tenant: string): boolean {
  return me.is_operator || me.tenants.some(({ name, role }) => name === tenant && role === "admin");
}

/** Whether the person administers any tenant. */
export function isAdminAnywhere(me: Me): boolean {
  return me.is_operator || me.tenants.some(({ role }) => role === "admin");
}

export const ROLES: readonly Role[] = ["viewer", "member", "admin"];

export function useSignOut(): () => void {
  const queries = useQueryClient();
  return () => {
    void api.DELETE("/session").finally(() => {
      queries.setQueryData(meQuery.queryKey, null);
      queries.removeQueries({ predicate: (query) => query.queryKey[0] !== "me" });
      live.apply({ type: "forget" });
    });
  };
}
