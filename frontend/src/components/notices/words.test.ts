import { describe, expect, it } from "vitest";

import type { BudgetState } from "@/api/schema";
import { amountText, outlook } from "@/components/notices/words";

const state = (changes: Partial<BudgetState>): BudgetState => ({
  budget: { amount: 100, unit: "gpu_hours", period: "month", action: "hold", starts_at: "2026-11-01T00:00:00Z" },
  used: 40,
  counts_from: "2026-11-01T00:00:00Z",
  ends_at: "2026-12-01T00:00:00Z",
  used_last_day: 4,
  expected: 76,
  reached_at: null,
  currency: null,
  is_holding: false,
  ...changes,
});
const day = (at: string) => at.slice(0, 10);

describe("outlook", () => {
  it("tells what is used by the end, or when nothing is left", () => {
    expect(outlook(state({}), day)).toBe("At the rate of the last 24 hours, 76 GPU-hours will be used by 2026-12-01.");
    expect(outlook(state({ reached_at: "2026-11-20T10:00:00Z" }), day)).toBe(
      "At the rate of the last 24 hours, the budget will be used up on 2026-11-20.",
    );
  });
  it("tells what a budget that is used up does", () => {
    expect(outlook(state({ used: 100, is_holding: true }), day)).toContain("no further job of the tenant starts until");
    expect(outlook(state({ used: 101 }), day)).toBe("The budget is used up. Jobs still start.");
  });
  it("says nothing where nothing is known", () => {
    expect(outlook(state({ budget: null }), day)).toBe("");
    expect(outlook(state({ ends_at: null, expected: null }), day)).toBe("");
  });
});

describe("amountText", () => {
  it("names the unit, and does not call a little nothing", () => {
    expect(amountText(320, "cost", "EUR")).toBe("320 EUR");
    expect([amountText(1204.55, "gpu_hours"), amountText(320, "cost"), amountText(0.01, "gpu_hours")]).toEqual([
      "1,204.6 GPU-hours",
      "320 in cost",
      "under 0.1 GPU-hours",
    ]);
  });
});
