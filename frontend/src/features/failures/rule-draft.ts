/** What the form of a rule for failures holds, the rule it becomes, and rules in words. Pure. */

import type { FailureRule } from "@/api/schema";

/** As it is typed: numbers are a list in one line. */
export interface RuleDraft extends Omit<FailureRule, "exit_codes" | "signals"> {
  exit_codes: string;
  signals: string;
}

export const EMPTY: RuleDraft = {
  name: "",
  class: "",
  retry: "again",
  says: "",
  pattern: "",
  exit_codes: "",
  signals: "",
  severity: "error",
  advice: "",
};

export function draftOf(rule: FailureRule): RuleDraft {
  return {
    ...rule,
    retry: rule.retry ?? "again",
    exit_codes: rule.exit_codes.join(", "),
    signals: rule.signals.join(", "),
  };
}

/** Whether the job is tried again is only said of a class of one's own; `again` unless something was chosen. */
export function ruleOf(draft: RuleDraft, builtIn: readonly string[]): FailureRule {
  return {
    ...draft,
    name: draft.name.trim(),
    class: draft.class.trim(),
    retry: builtIn.includes(draft.class.trim()) ? null : (draft.retry ?? "again"),
    exit_codes: numbersIn(draft.exit_codes),
    signals: numbersIn(draft.signals),
  };
}

/** What is no number stays as it is, for the server to name it. */
function numbersIn(text: string): number[] {
  const words = text.split(/[\s,]+/).filter(Boolean);
  return words.map((word) => (Number.isNaN(Number(word)) ? word : Number(word))) as number[];
}

/** The rules with one in the place of the one of that name; at the end where there is none. */
export function withRule(rules: readonly FailureRule[], name: string | null, rule: FailureRule): FailureRule[] {
  const place = rules.findIndex((each) => each.name === name);
  return place < 0 ? [...rules, rule] : rules.with(place, rule);
}

/** The rules with one tried before the one that was before it. */
export function earlier(rules: readonly FailureRule[], name: string): FailureRule[] {
  const place = rules.findIndex((each) => each.name === name);
  const [rule, before] = [rules[place], rules[place - 1]];
  return rule && before ? rules.with(place, before).with(place - 1, rule) : [...rules];
}

/** "exit code 1 or 28, or signal 9". */
export function endsOf({ exit_codes: codes, signals }: FailureRule): string {
  return [
    codes.length > 0 ? `exit code ${codes.join(" or ")}` : "",
    signals.length > 0 ? `signal ${signals.join(" or ")}` : "",
  ]
    .filter(Boolean)
    .join(", or ");
}

export const RETRIES: readonly { value: NonNullable<FailureRule["retry"]>; label: string }[] = [
  { value: "never", label: "Not again" },
  { value: "again", label: "Again, after the usual waits" },
  { value: "elsewhere", label: "Again, on another node" },
];

export function retryText({ retry }: FailureRule): string {
  return retry === null ? "As is usual for the class" : (RETRIES.find(({ value }) => value === retry)?.label ?? retry);
}
