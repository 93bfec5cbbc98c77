/** What the page of the audit log reads. */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answerOf, api, cursorOf, queryString } from "@/api/client";
import { type Days, instantsOf } from "@/api/days";
import type { operations } from "@/api/schema";

export interface AuditFilters extends Days {
  /** A user, a node or the key of a token. */
  who?: string | undefined;
  kind?: string | undefined;
  /** The beginning of an action: "node." */
  action?: string | undefined;
  /** What it was done to: "virtual cluster". */
  object?: string | undefined;
  /** Its name or id. */
  subject?: string | undefined;
  tenant?: string | undefined;
  /** An address or a network. */
  address?: string | undefined;
  outcome?: string | undefined;
}

type Asked = NonNullable<operations["audit_list"]["parameters"]["query"]>;

/** What an address says is sent as it is: the server knows best. */
function asked({ since, until, ...others }: AuditFilters): Asked {
  return { ...(others as Asked), ...instantsOf({ since, until }) };
}

export const auditQuery = (filters: AuditFilters) =>
  infiniteQueryOptions({
    queryKey: ["audit", filters],
    queryFn: ({ signal, pageParam }) =>
      answerOf(api.GET("/audit", { params: { query: { ...asked(filters), cursor: pageParam } }, signal })),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    placeholderData: keepPreviousData,
    refetchInterval: 30_000,
  });

/** For operators. */
export const auditStatusQuery = queryOptions({
  queryKey: ["audit", "status"],
  queryFn: ({ signal }) => answerOf(api.GET("/audit/status", { signal })),
  refetchInterval: 15_000,
});

/** Where the browser finds the file. */
export function auditAddress(filters: AuditFilters): string {
  return `/api/v1/audit/export${queryString({ ...asked(filters) })}`;
}
