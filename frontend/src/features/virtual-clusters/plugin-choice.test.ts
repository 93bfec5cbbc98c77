import { describe, expect, it } from "vitest";

import { entriesOf, inWords, parameterLabel, withParameter } from "@/features/virtual-clusters/plugin-choice";

describe("a chosen plug-in", () => {
  it("reads lists as people type them", () => {
    expect(entriesOf("100, 2000,", ",")).toEqual([100, 2000]);
  });

  it("is told to people in words", () => {
    expect(inWords({ name: "gavel", parameters: { objective: "max_min", reserve: 0.5 } })).toBe(
      "gavel: objective max min; reserve 0.5",
    );
    expect(inWords({ name: "tiresias", parameters: { thresholds: [10, 20] } })).toBe("tiresias: thresholds 10, 20");
    expect(inWords({ name: "drf", parameters: {} })).toBe("drf");
  });

  it("has its times with a unit and its switches in words", () => {
    const parameters = { half_life_seconds: 86_400, minimum_run_seconds: 0.5, backfill: false };
    expect(inWords({ name: "fair", parameters })).toBe("fair: half life 24 h; minimum run 0.5 s; without backfill");
    expect(parameterLabel("half_life_seconds")).toBe("Half life, seconds");
  });
});

describe("setting a parameter", () => {
  const alpha = { name: "alpha", default: 1 };

  it("keeps what differs from what it would be anyway", () => {
    expect(withParameter({ window: 5 }, alpha, 0.5)).toEqual({ window: 5, alpha: 0.5 });
  });

  it("forgets it once it is emptied or as usual", () => {
    expect(withParameter({ window: 5, alpha: 0.5 }, alpha, 1)).toEqual({ window: 5 });
    expect(withParameter({ alpha: 0.5 }, alpha, undefined)).toEqual({});
    expect(withParameter({ list: [1] }, { name: "list", default: [1, 2] }, [])).toEqual({});
    expect(withParameter({ list: [1] }, { name: "list", default: [1, 2] }, [1, 2])).toEqual({});
  });
});
