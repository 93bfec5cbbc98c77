import { describe, expect, it } from "vitest";

import { parseYaml } from "@/components/yaml/document";
import {
  addPhysical,
  addPinned,
  addType,
  type CellDraft,
  changePhysical,
  changeType,
  isDocument,
  pinnedOf,
  removePhysical,
  removeType,
  renameType,
  setCells,
  setPinned,
  withHardwareOf,
  writeCells,
} from "@/features/cell-editor/document";

const document: CellDraft = {
  types: {
    "V100-SWITCH": { of: "V100", count: 2 },
    "V100-NODE": { of: "V100-SWITCH", count: 2, node: true },
    "V100-RACK": { of: "V100-NODE", count: 2 },
  },
  physical: [
    { type: "V100-RACK", name: "rack-1", nodes: ["n1", "n2"] },
    { type: "V100-RACK", name: "rack-2", nodes: ["n3", "n4"], gpus: { n4: [1, 0, 2, 3] } },
  ],
  virtual_clusters: {
    vision: { cells: { "V100-NODE": 1, "V100-RACK/V100-SWITCH": 2 }, pinned: { demo: "rack-2/n3" } },
  },
};

describe("the document as text", () => {
  it("has one line for each type, topmost cell and virtual cluster, and is read back as it was", () => {
    const text = writeCells(document);
    expect(text).toContain("  V100-NODE: {of: V100-SWITCH, count: 2, node: true}\n");
    expect(text).toContain("  - {type: V100-RACK, name: rack-2, nodes: [n3, n4], gpus: {n4: [1, 0, 2, 3]}}\n");
    expect(text).toContain("  vision: {cells: {V100-NODE: 1, V100-RACK/V100-SWITCH: 2}, pinned: {demo: rack-2/n3}}\n");
    expect(parseYaml(text, "It").data).toEqual(document);
  });

  it("has all its parts when it is empty", () => {
    expect(parseYaml(writeCells({}), "It").data).toEqual({ types: {}, physical: [], virtual_clusters: {} });
  });
});

describe("the form", () => {
  it.each([
    [{}, true],
    [document, true],
    [{ types: { A: { of: "V100" } } }, true],
    [{ virtual_clusters: { vision: null } }, true],
    [{ types: [] }, false],
    [{ physical: [{ nodes: "n1" }] }, false],
    [{ virtual_clusters: { vision: { cells: { A: "two" } } } }, false],
    ["text", false],
  ])("of %j can be shown: %s", (data, expected) => {
    expect(isDocument(data)).toBe(expected);
  });

  it("adds a type above the last one, and a first one above the GPU", () => {
    expect(addType(document, "V100").types).toMatchObject({ "type-1": { of: "V100-RACK", count: 2 } });
    expect(addType(addType({}, "K80"), "K80").types).toEqual({
      "type-1": { of: "K80", count: 2 },
      "type-2": { of: "type-1", count: 2 },
    });
  });

  it("renames a type wherever it is used, and keeps the order", () => {
    const renamed = renameType(document, "V100-SWITCH", "PAIR");
    expect(Object.keys(renamed.types ?? {})).toEqual(["PAIR", "V100-NODE", "V100-RACK"]);
    expect(renamed.types?.["V100-NODE"]?.of).toBe("PAIR");
    expect(renamed.virtual_clusters?.vision?.cells).toEqual({ "V100-NODE": 1, "V100-RACK/PAIR": 2 });
    expect(renamed.virtual_clusters?.vision?.pinned).toEqual({ demo: "rack-2/n3" });
    expect(renameType(document, "V100-RACK", "ROW").physical?.map(({ type }) => type)).toEqual(["ROW", "ROW"]);
  });

  it("leaves out what was emptied", () => {
    const emptied = changeType(document, "V100-NODE", { count: undefined, node: false });
    expect(emptied.types?.["V100-NODE"]).toEqual({ of: "V100-SWITCH" });
    expect(removeType(document, "V100-NODE").types).not.toHaveProperty("V100-NODE");
  });

  it("changes hardware by its place", () => {
    const added = addPhysical(document);
    expect(added.physical?.[2]).toEqual({ type: "V100-RACK", name: "cell-1", nodes: [] });
    expect(changePhysical(added, 2, { nodes: ["n5"] }).physical?.[2]?.nodes).toEqual(["n5"]);
    expect(removePhysical(added, 0).physical?.map(({ name }) => name)).toEqual(["rack-2", "cell-1"]);
  });

  it("takes hardware over and leaves to the virtual clusters what they own", () => {
    const found: CellDraft = { types: { N: { of: "K80", count: 4, node: true } }, physical: [] };
    expect(withHardwareOf(document, found)).toEqual({ ...found, virtual_clusters: document.virtual_clusters });
  });

  it("counts the cells of a virtual cluster as the document writes them", () => {
    const aliases = ["V100-SWITCH", "V100-RACK/V100-SWITCH"];
    const more = setCells(document, "vision", "V100-SWITCH", 3, aliases);
    expect(more.virtual_clusters?.vision?.cells).toEqual({ "V100-NODE": 1, "V100-RACK/V100-SWITCH": 3 });
    const first = setCells(document, "speech", "V100-NODE", 2);
    expect(first.virtual_clusters?.speech).toEqual({ cells: { "V100-NODE": 2 } });
    expect(setCells(first, "speech", "V100-NODE", undefined).virtual_clusters).not.toHaveProperty("speech");
  });

  it("pins cells, renames, moves and lets go of them", () => {
    const added = addPinned(document, "speech");
    const pinned = { cluster: "speech", name: "pinned-1", address: "" };
    expect(pinnedOf(added)).toContainEqual(pinned);
    const renamed = setPinned(added, pinned, { ...pinned, name: "big", address: "rack-1" });
    expect(renamed.virtual_clusters?.speech).toEqual({ pinned: { big: "rack-1" } });
    const big = { cluster: "speech", name: "big", address: "rack-1" };
    const moved = setPinned(renamed, big, { ...big, cluster: "vision" });
    expect(moved.virtual_clusters).toEqual({
      vision: { ...document.virtual_clusters?.vision, pinned: { demo: "rack-2/n3", big: "rack-1" } },
    });
    expect(setPinned(moved, { ...big, cluster: "vision" }, null)).toEqual(document);
  });
});
