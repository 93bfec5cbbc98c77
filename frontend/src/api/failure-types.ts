/** What the routes about the site's rules for failures say; docs/failures.md has the words. */

import type { components } from "@/api/schema";

type Schemas = components["schemas"];

export type FailureRule = Required<Schemas["FailureRule"]>;
export interface FailureRules {
  rules: FailureRule[];
  /** Those that a rule may name without saying whether the job is tried again. */
  classes: Schemas["BuiltInClass"][];
}
export type FailureRuleFound = Schemas["FailureRulesFound"];
