import { describe, expect, it } from "vitest";

import { standing } from "@/features/throughputs/interference-panel";

describe("predictions for pairs", () => {
  it("are shown with their error", () => {
    const found = { least_pairs: 20, pairs: 31, error: 0.049, error_of_mean: 0.078, fitted_at: null, rules: [] };
    expect(standing(found)).toContain("fitted on 31 measured pairs. The mean error for held-out pairs is 4.9 points");
    expect(standing(found)).toContain("predicting their mean would give 7.8 points");
    expect(standing({ ...found, error: null })).toMatch(/^No predictions yet: they need 20 pairs/);
  });
});
