import { describe, expect, it } from "vitest";

import { creditsText, lotText } from "@/components/lot";

describe("a lot in words", () => {
  it("names GPUs, then cells, and nothing of which there is none", () => {
    expect(lotText({ gpus: { P100: 2, K80: 0 }, cells: { "V100-SWITCH": 1 } })).toBe("2 P100, 1 V100-SWITCH");
    expect(lotText({})).toBe("nothing");
  });

  it("costs credits to the thousandth", () => {
    expect([1, 0, 1.5, 1234.5678].map(creditsText)).toEqual([
      "1 credit",
      "0 credits",
      "1.5 credits",
      "1,234.568 credits",
    ]);
  });
});
