/** What the pages read about GPU-hours used. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answerOf, api, queryString } from "@/api/client";
import { type Days, instantsOf } from "@/api/days";

/** Without days: from the first of this month (UTC) until now. */
export interface UsageFilters extends Days {
  /** Groupings, separated by commas; by tenant without. */
  by?: string | undefined;
  tenant?: string | undefined;
  virtual_cluster?: string | undefined;
  gpu_model?: string | undefined;
}

function asked({ since, until, ...others }: UsageFilters) {
  return { ...others, ...instantsOf({ since, until }) };
}

/** A costly sum: it is not fetched again and again. */
export const usageReportQuery = (filters: UsageFilters = {}) =>
  queryOptions({
    queryKey: ["usage", filters],
    queryFn: ({ signal }) => answerOf(api.GET("/usage", { params: { query: asked(filters) }, signal })),
    placeholderData: keepPreviousData,
  });

/** Where the browser finds the file. */
export function usageAddress(filters: UsageFilters): string {
  return `/api/v1/usage/export${queryString(asked(filters))}`;
}
