import { describe, expect, it } from "vitest";

import { bodyOf, curveOf, emptyQuestion, isBetter, type CurvePoint } from "@/features/advice/draft";

describe("the question to the adviser", () => {
  it("asks for nothing that was left empty", () => {
    expect(bodyOf(emptyQuestion)).toEqual({ days: 7 });
    const minimum = [{ cluster: "vision", type: "", count: 2 }];
    expect(bodyOf({ ...emptyQuestion, days: undefined, budget: { V100: undefined }, minimum })).toEqual({ days: 7 });
  });

  it("gathers minimums by virtual cluster; a budget of nothing is one", () => {
    const question = {
      days: 30,
      budget: { V100: 0, K80: 8 },
      price: { V100: 2.5 },
      minimum: [
        { cluster: "vision", type: "NODE", count: 1 },
        { cluster: "vision", type: "SWITCH", count: 2 },
        { cluster: "speech", type: "NODE", count: undefined },
      ],
      keep: ["speech"],
    };
    expect(bodyOf(question)).toEqual({
      days: 30,
      budget_gpus: { V100: 0, K80: 8 },
      price_per_gpu_hour: { V100: 2.5 },
      minimum: { vision: { NODE: 1, SWITCH: 2 } },
      keep: ["speech"],
    });
  });
});

describe("the answer", () => {
  it("is a curve by GPUs, with the best cells for each number of them", () => {
    const points: CurvePoint[] = [
      { cells: { NODE: 2 }, gpus: 8, delay_mean_seconds: 10 },
      { cells: { NODE: 1 }, gpus: 4, delay_mean_seconds: 95 },
      { cells: { SWITCH: 2 }, gpus: 4, delay_mean_seconds: 90 },
    ];
    expect(curveOf(points)).toEqual([points[2], points[0]]);
  });

  it("is better when it is less of what nobody wants", () => {
    expect(isBetter(10, 5, true)).toBe(true);
    expect(isBetter(0.5, 0.4, false)).toBe(false);
    expect(isBetter(5, 5, true)).toBeNull();
    expect(isBetter(null, 5, true)).toBeNull();
  });
});
