import { describe, expect, it } from "vitest";

import { cellsText, sharesOf, tellUse } from "@/components/cells/cell-use";

const use = { gpus: 8, free: 4, used: 3, opportunistic: 0, bad: 1 };

describe("the use of a cell", () => {
  it("is told in words, without what there is nothing of", () => {
    expect(tellUse(use)).toBe("3 used, 1 bad, 4 free");
    expect(tellUse({ gpus: 0, free: 0, used: 0, opportunistic: 0, bad: 0 })).toBe("no GPUs");
  });

  it("fills a bar exactly", () => {
    expect(sharesOf(use)).toEqual([
      { use: "used", percent: 37.5 },
      { use: "bad", percent: 12.5 },
      { use: "free", percent: 50 },
    ]);
  });
});

describe("the cells of a virtual cluster", () => {
  it("are counted by type", () => {
    expect(cellsText({ "V100-NODE": 2, "V100-SWITCH": 0, "A100-RACK/A100": 1 })).toBe("2 V100-NODE, 1 A100-RACK/A100");
    expect(cellsText({})).toBe("none");
  });
});
