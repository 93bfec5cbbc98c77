import { describe, expect, it } from "vitest";

import type { CellDraft } from "@/features/cell-editor/document";
import { columnsOf, ownedBy } from "@/features/cell-editor/columns";

const types = {
  SWITCH: { of: "V100", count: 2 },
  NODE: { of: "SWITCH", count: 2, node: true },
  RACK: { of: "NODE", count: 2 },
};
const racks: CellDraft = {
  types,
  physical: [
    { type: "RACK", name: "rack-1", nodes: ["n1", "n2"] },
    { type: "RACK", name: "rack-2", nodes: ["n3", "n4"] },
  ],
};
const left = (document: CellDraft) => Object.fromEntries(columnsOf(document).map(({ path, left }) => [path, left]));

describe("the columns of what can be owned", () => {
  it("are the levels of the hardware, topmost first", () => {
    expect(columnsOf(racks)).toMatchObject([
      { path: "RACK", gpus: 8, total: 2, isNode: false },
      { path: "NODE", gpus: 4, total: 4, isNode: true },
      { path: "SWITCH", gpus: 2, total: 8, isNode: false },
      { path: "V100", gpus: 1, total: 16, isNode: false },
    ]);
  });

  it("count how many more could be owned, of which smaller cells take their part too", () => {
    const owned = { ...racks, virtual_clusters: { a: { cells: { RACK: 1, SWITCH: 1 } }, b: { cells: { NODE: 1 } } } };
    // The second rack is split into a node that is owned, and another of which one switch is owned.
    expect(left(owned)).toEqual({ RACK: 0, NODE: 0, SWITCH: 1, V100: 2 });
    const nodes = { ...racks, virtual_clusters: { a: { cells: { NODE: 1 } } } };
    expect(left(nodes)).toEqual({ RACK: 1, NODE: 3, SWITCH: 6, V100: 12 });
  });

  it("tell at which level how many are missing", () => {
    const columns = columnsOf({ ...racks, virtual_clusters: { a: { cells: { RACK: 3, V100: 3 } } } });
    expect(columns.map(({ left, missing }) => [left, missing])).toEqual([
      [0, 1],
      [0, 0],
      [0, 0],
      [0, 3],
    ]);
  });

  it("take pinned cells out where they are", () => {
    // Both racks are split for one node each: no rack is left, and two nodes.
    const pinned = { a: { pinned: { x: "rack-1/n1", y: "rack-2/n3" } } };
    expect(left({ ...racks, virtual_clusters: pinned })).toEqual({ RACK: 0, NODE: 2, SWITCH: 4, V100: 8 });
    const deep = { a: { pinned: { x: "rack-1/n1/0" } } };
    expect(left({ ...racks, virtual_clusters: deep })).toEqual({ RACK: 1, NODE: 3, SWITCH: 7, V100: 14 });
  });

  it("name the hardware where several kinds have the same type", () => {
    const mixed: CellDraft = {
      types,
      physical: [...(racks.physical ?? []), { type: "NODE", name: "n5", nodes: ["n5"] }],
      virtual_clusters: { a: { cells: { RACK: 1, "NODE/SWITCH": 1 } } },
    };
    const columns = columnsOf(mixed);
    expect(columns.map(({ path }) => path)).toEqual([
      "RACK",
      "RACK/NODE",
      "RACK/SWITCH",
      "RACK/V100",
      "NODE/NODE",
      "NODE/SWITCH",
      "NODE/V100",
    ]);
    expect(columns.map((column) => ownedBy(mixed, "a", column))).toEqual([1, , , , , 1, ,]);
  });

  it("show what is owned of a type that the hardware does not have, and end where types go in circles", () => {
    const stray = { ...racks, virtual_clusters: { a: { cells: { ROW: 2 } } } };
    expect(columnsOf(stray).at(-1)).toMatchObject({ path: "ROW", chain: null, owned: 2, missing: 2 });
    const circle = {
      types: { A: { of: "B", count: 2 }, B: { of: "A", count: 2 } },
      physical: [{ type: "A", nodes: [] }],
    };
    expect(columnsOf(circle).length).toBeLessThan(20);
  });
});
