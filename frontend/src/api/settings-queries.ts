/** What operators set for the whole cluster. */

import { queryOptions } from "@tanstack/react-query";

import { newIdempotencyKey, request } from "@/api/client";
import type { FailureRule, FailureRuleFound, FailureRules } from "@/api/failure-types";
import type { ClusterSettings, GpuModel } from "@/api/types";

/** The stream does not tell when the policy begins to take too long, and when it no longer does. */
const LOOK_AGAIN_MS = 10_000;

export const clusterSettingsQuery = queryOptions({
  queryKey: ["cluster-settings"],
  queryFn: ({ signal }) => request<ClusterSettings>("GET", "/cluster/settings", { signal }),
  refetchInterval: LOOK_AGAIN_MS,
});

export function changeClusterSettings(changes: Partial<ClusterSettings>): Promise<ClusterSettings> {
  return request<ClusterSettings>("PATCH", "/cluster/settings", { body: changes });
}

export const failureRulesQuery = queryOptions({
  queryKey: ["failure-rules"],
  queryFn: ({ signal }) => request<FailureRules>("GET", "/failure-rules", { signal }),
});

/** Change the rules as they are now, whoever changed them last; they are replaced as a whole. */
export async function changeFailureRules(
  change: (rules: readonly FailureRule[]) => FailureRule[],
): Promise<FailureRules> {
  const { rules } = await request<FailureRules>("GET", "/failure-rules");
  return request<FailureRules>("PUT", "/failure-rules", { body: { rules: change(rules) } });
}

/** Which rule an attempt would match; `rules` left out: those in force. */
export function tryFailureRules(body: {
  log: string;
  exit_code: number;
  rules?: readonly FailureRule[] | undefined;
}): Promise<FailureRuleFound> {
  return request<FailureRuleFound>("POST", "/failure-rules/test", { body, idempotencyKey: newIdempotencyKey() });
}

/** What a GPU of a model costs for an hour. */
export function setPrice(model: string, pricePerHour: number): Promise<GpuModel> {
  return request<GpuModel>("PATCH", `/gpu-models/${encodeURIComponent(model)}`, {
    body: { price_per_hour: pricePerHour },
  });
}
