/** What the roles of a user allow. */

import type { Me, Role } from "@/api/schema";

/** Whether the person may submit and cancel for a tenant: members may, viewers only look. */
export function mayActFor(me: Me, tenant: string): boolean {
  return me.is_operator || me.tenants.some(({ name, role }) => name === tenant && role !== "viewer");
}

/** Whether the person may submit and change jobs of any tenant. */
export function mayActAnywhere(me: Me): boolean {
  return me.is_operator || me.tenants.some(({ role }) => role !== "viewer");
}

export function isAdminOf(me: Me, tenant: string): boolean {
  return me.is_operator || me.tenants.some(({ name, role }) => name === tenant && role === "admin");
}

/** Whether the person administers any tenant. */
export function isAdminAnywhere(me: Me): boolean {
  return me.is_operator || me.tenants.some(({ role }) => role === "admin");
}

export const ROLES: readonly Role[] = ["viewer", "member", "admin"];
