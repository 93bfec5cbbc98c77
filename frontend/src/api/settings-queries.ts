/** What operators set for the whole cluster. */

import { queryOptions } from "@tanstack/react-query";

import { answerOf, api, once } from "@/api/client";
import { type Edition, editionQuery, isOutdated, readEdition } from "@/api/edition";
import type {
  FailureRule,
  FailureRuleList,
  FailureRulesTrialRequest,
  PatchedClusterSettingsChangeRequest,
} from "@/api/schema";

/** The stream does not tell when the policy begins to take too long, and when it no longer does. */
const LOOK_AGAIN_MS = 10_000;

export const clusterSettingsQuery = queryOptions({
  queryKey: ["cluster-settings"],
  queryFn: ({ signal }) => answerOf(api.GET("/cluster/settings", { signal })),
  refetchInterval: LOOK_AGAIN_MS,
});

export const clusterSettingsEdition = editionQuery(["cluster-settings"], () => api.GET("/cluster/settings"));

export const changeClusterSettings = (body: PatchedClusterSettingsChangeRequest, header: Edition) =>
  answerOf(api.PATCH("/cluster/settings", { params: { header }, body }));

export const failureRulesQuery = queryOptions({
  queryKey: ["failure-rules"],
  queryFn: ({ signal }) => answerOf(api.GET("/failure-rules", { signal })),
});

export const failureRulesEdition = editionQuery(["failure-rules"], () => api.GET("/failure-rules"));

const classesOf = ({ classes, rules }: FailureRuleList) =>
  [...new Set([...classes.map(({ name }) => name), ...rules.map((rule) => rule.class)])].sort();

/** The classes that a failure may have: the platform's and those of the site's rules, by name. */
export const failureClassesQuery = queryOptions({ ...failureRulesQuery, select: classesOf });

export const setFailureRules = (rules: FailureRule[], header: Edition) =>
  answerOf(api.PUT("/failure-rules", { params: { header }, body: { rules } }));

/** How often a change begins again from rules that others changed between its reading and its writing. */
const MOST_OUTDATED = 3;

/** Change the rules as they are now, even where others changed them meanwhile; they are replaced as a whole. */
export async function changeFailureRules(
  change: (rules: readonly FailureRule[]) => FailureRule[],
): Promise<FailureRuleList> {
  for (let outdated = 0; ; outdated++) {
    const { thing, edition: header } = await readEdition(api.GET("/failure-rules"));
    try {
      return await setFailureRules(change(thing.rules), header);
    } catch (error) {
      if (!isOutdated(error) || outdated === MOST_OUTDATED) throw error;
    }
  }
}

/** Which rule an attempt would match; `rules` left out: those in force. */
export const tryFailureRules = (body: FailureRulesTrialRequest) =>
  answerOf(api.POST("/failure-rules/test", { params: { header: once() }, body }));

/** What a GPU of a model costs for an hour. */
export const setPrice = (model: string, pricePerHour: number) =>
  answerOf(
    api.PATCH("/gpu-models/{name}", { params: { path: { name: model } }, body: { price_per_hour: pricePerHour } }),
  );
