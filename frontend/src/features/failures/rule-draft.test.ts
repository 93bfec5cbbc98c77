import { expect, test } from "vitest";

import type { FailureRule } from "@/api/schema";
import { draftOf, earlier, EMPTY, endsOf, ruleOf, withRule } from "@/features/failures/rule-draft";

const BUILT_IN = ["disk_full"];
const named = (name: string): FailureRule => ruleOf({ ...EMPTY, name, class: "scratch" }, BUILT_IN);

test("numbers are typed in one line, and what is none goes to the server as it is", () => {
  const rule = ruleOf({ ...EMPTY, name: "full", class: "disk_full", exit_codes: "1, 28", signals: "9 x" }, BUILT_IN);
  expect(rule).toMatchObject({ retry: null, exit_codes: [1, 28], signals: [9, "x"] });
  expect(ruleOf(draftOf(rule), BUILT_IN)).toEqual(rule);
  expect(endsOf({ ...rule, signals: [9] })).toBe("exit code 1 or 28, or signal 9");
});

test("only a class of one's own says whether it is tried again", () => {
  expect(named("a").retry).toBe("again");
  expect(ruleOf({ ...EMPTY, name: "a", class: "disk_full", retry: "never" }, BUILT_IN).retry).toBeNull();
});

test("rules are changed by name, whatever others did to the list meanwhile", () => {
  const rules = [named("a"), named("b")];
  const names = (changed: FailureRule[]) => changed.map(({ name }) => name).join(" ");
  expect(names(withRule(rules, "b", named("c")))).toBe("a c");
  expect(names(withRule(rules, "gone", named("c")))).toBe("a b c");
  expect(names(earlier(rules, "b"))).toBe("b a");
  expect(names(earlier(rules, "a"))).toBe("a b");
});
