import { describe, expect, it } from "vitest";

import type { CellNode } from "@/api/schema";
import { cellsOf, labelOf, moreText, moveFor, parentOf, trailOf, type TreeItem } from "@/features/cells/tree";

const cell = (address: string, given: Partial<CellNode> = {}): CellNode => ({
  address,
  chain: "RACK",
  type: "NODE",
  level: 1,
  level_is_node: true,
  gpus: 4,
  free: 4,
  used: 0,
  opportunistic: 0,
  bad: 0,
  virtual_cluster: null,
  pinned: "",
  on_loan: null,
  node: "",
  gpu: null,
  state: "free",
  children: 4,
  ...given,
});
const page = (...results: CellNode[]) => ({ results, next: null, previous: null });

describe("pages of children", () => {
  it("become one list, in which a cell that moved between pages is once and as it was last seen", () => {
    const cells = cellsOf([page(cell("a"), cell("b")), page(cell("b", { used: 1 }), cell("c"))]);
    expect(cells.map(({ address }) => address)).toEqual(["a", "b", "c"]);
    expect(cells[1]?.used).toBe(1);
    expect(cellsOf(undefined)).toEqual([]);
  });

  it("say how many are left where the parent knows", () => {
    expect(moreText(50, 120)).toBe("Show more of 70 others");
    expect(moreText(50, undefined)).toBe("Show more");
  });
});

describe("a cell", () => {
  it("is called by its last step", () => {
    expect(labelOf(cell("rack-1"))).toBe("rack-1");
    expect(labelOf(cell("rack-1/n3"))).toBe("n3");
    expect(labelOf(cell("rack-1/n3/0", { type: "SWITCH" }))).toBe("SWITCH 0");
    expect(labelOf(cell("rack-1/n3/0/1", { gpu: 5 }))).toBe("GPU 5");
    // A node may be called by a number.
    expect(labelOf(cell("17"))).toBe("17");
  });

  it("knows what is around it", () => {
    expect(parentOf("rack-1/n3/0")).toBe("rack-1/n3");
    expect(parentOf("rack-1")).toBeUndefined();
    expect(trailOf("rack-1/n3/0")).toEqual(["rack-1", "rack-1/n3", "rack-1/n3/0"]);
    expect(trailOf(undefined)).toEqual([]);
  });
});

describe("the keys", () => {
  // rack-1 is open with a closed node and an empty one in it, rack-2 is closed.
  const items: TreeItem[] = [
    { level: 1, open: true },
    { level: 2, open: false },
    { level: 2, open: null },
    { level: 1, open: false },
  ];

  it.each<[Parameters<typeof moveFor>[0], number, ReturnType<typeof moveFor>]>([
    ["next", 0, { focus: 1 }],
    ["next", 3, null],
    ["previous", 0, null],
    ["previous", 3, { focus: 2 }],
    ["first", 2, { focus: 0 }],
    ["last", 0, { focus: 3 }],
    ["unfold", 0, { focus: 1 }],
    ["unfold", 1, { toggle: true }],
    ["unfold", 2, null],
    ["fold", 0, { toggle: true }],
    ["fold", 2, { focus: 0 }],
    ["fold", 3, null],
    [undefined, 0, null],
  ])("%s on item %i", (key, at, expected) => {
    expect(moveFor(key, items, at)).toEqual(expected);
  });
});
