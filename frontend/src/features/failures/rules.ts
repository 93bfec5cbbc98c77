/** The rules of failures as a list, and in words. Pure. */

import type { FailureRule } from "@/api/schema";

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
  { value: "never", label: "Do not retry" },
  { value: "again", label: "Retry, after the usual waits" },
  { value: "elsewhere", label: "Retry, on another node" },
];

export function retryText({ retry }: FailureRule): string {
  return retry === null ? "Default of the class" : (RETRIES.find(({ value }) => value === retry)?.label ?? retry);
}
