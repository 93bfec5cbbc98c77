import { describe, expect, it } from "vitest";

import { standing } from "@/features/throughputs/interference-panel";

describe("what is foretold of pairs", () => {
  it("is told with its error beside", () => {
    const found = { least_pairs: 20, pairs: 31, error: 0.049, error_of_mean: 0.078, fitted_at: null, rules: [] };
    expect(standing(found)).toContain("fitted on 31 measured pairs. Off by 4.9 points on average");
    expect(standing(found)).toContain("their mean alone would be off by 7.8 points");
    expect(standing({ ...found, error: null })).toMatch(/^Nothing is foretold yet: that takes 20 pairs/);
  });
});
