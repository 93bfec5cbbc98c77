import { screen, waitFor } from "@testing-library/react";
import { describe, expect, it, test, vi } from "vitest";

import type { FailureRule } from "@/api/schema";
import { draftOf, EMPTY, RuleDialog, ruleOf } from "@/features/failures/rule-dialog";
import { earlier, endsOf, withRule } from "@/features/failures/rules";
import { renderPage } from "@/testing/render";
import { Refusal, server } from "@/testing/server";

const KNOWN = { rules: [], classes: [{ name: "disk_full", says: "The disk is full", retry: "elsewhere" as const }] };
const done = vi.fn();
const NewRule = () => <RuleDialog rule={null} known={KNOWN as never} onClose={done} />;

describe("a rule for failures", () => {
  it("is saved as it was typed, after what the server objected to was mended", async () => {
    const wrong = { field: "rules.0.pattern", problem: "is no regular expression", expected: "one of re2" };
    server.on("GET /failure-rules", KNOWN);
    server.on("PUT /failure-rules", new Refusal(400, { code: "invalid", detail: "No.", fields: [wrong] }));
    const { user } = await renderPage(NewRule);
    await user.type(screen.getByRole("textbox", { name: "Name" }), "full");
    const pattern = screen.getByRole<HTMLInputElement>("textbox", { name: "Pattern" });
    await user.type(pattern, "no space (left");
    await user.type(screen.getByRole("textbox", { name: "Exit codes" }), "1, 28");
    const kind = screen.getByRole("combobox", { name: "Class" });
    await user.type(kind, "scratch");
    expect(screen.getByRole<HTMLSelectElement>("combobox", { name: "Tried again" }).value).toBe("again");
    await user.click(screen.getByRole("button", { name: "Save" }));
    expect(await screen.findByText("is no regular expression; expected one of re2")).toBeTruthy();
    expect(pattern.value).toBe("no space (left");
    expect(screen.queryByRole("alert")).toBeNull();

    server.on("PUT /failure-rules", KNOWN);
    await user.type(pattern, ")");
    await user.clear(kind);
    await user.type(kind, "disk_full");
    // Of a class that is built in it is known.
    expect(screen.queryByRole("combobox", { name: "Tried again" })).toBeNull();
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(done).toHaveBeenCalled());
    const sent = server.sent("PUT /failure-rules").map(({ body }) => (body as { rules: object[] }).rules[0]);
    expect(sent).toMatchObject([
      { name: "full", pattern: "no space (left", exit_codes: [1, 28], class: "scratch", retry: "again" },
      { name: "full", pattern: "no space (left)", exit_codes: [1, 28], class: "disk_full", retry: null },
    ]);
  });
});

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
