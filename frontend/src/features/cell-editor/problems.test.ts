import { describe, expect, it } from "vitest";

import { nearestField, pathOf, problemAt, sentenceOf } from "@/features/cell-editor/problems";
import { linesOf } from "@/components/yaml/document";

const problems = [
  { field: "types.A.count", problem: "0 is less than 1", expected: "a whole number from 1" },
  { field: "physical[0].nodes[1]", problem: "there is no node n9", expected: "" },
];
const TEXT = `types:
  A100-80GB.v2: {of: A100, count: 4, node: true}
physical:
  - {type: A100-80GB.v2, name: n1, nodes: [n1]}
  - type: A100-80GB.v2
    nodes: [n2]
virtual_clusters:
  vision:
    cells: {A100-80GB.v2: 9}
`;
const document = {
  types: { "A100-80GB.v2": { of: "A100", count: 4 } },
  physical: [{ nodes: ["n1"] }, { nodes: ["n2"] }],
  virtual_clusters: { vision: { cells: { "A100-80GB.v2": 9 } } },
};

describe("a problem", () => {
  it("is shown at its own control, or at that of the whole it is in", () => {
    expect(problemAt(problems, "types.A.count")).toBe("0 is less than 1; expected a whole number from 1");
    expect(problemAt(problems, "types.A")).toBeUndefined();
    expect(problemAt(problems, "physical[0].nodes", true)).toBe("there is no node n9");
    expect(problemAt(problems, "physical[0].node", true)).toBeUndefined();
    expect(sentenceOf({ problem: "contains itself", expected: "" })).toBe("contains itself");
  });

  it.each([
    ["physical[1].nodes[2]", 2],
    ["types.A.node", 0],
    ["virtual_clusters.*.cells.NODE", 4],
    ["version", -1],
  ])("of %s leads to control %i", (field, control) => {
    const controls = ["types.A", "types.A.count", "physical[1].nodes", "physical[1]", "virtual_clusters.x.cells.NODE"];
    expect(nearestField(controls, field)).toBe(control);
  });

  it.each([
    ["types.A100-80GB.v2.count", ["types", "A100-80GB.v2", "count"], 2],
    ["physical[1].nodes[0]", ["physical", 1, "nodes", 0], 6],
    ["physical[7]", ["physical"], 3],
    ["virtual_clusters.vision.cells.A100-80GB.v2", ["virtual_clusters", "vision", "cells", "A100-80GB.v2"], 9],
    ["virtual_clusters.*.cells.A100", ["virtual_clusters"], 7],
    ["specification", [], 1],
  ])("%s stands at %j, line %i", (field, path, line) => {
    expect(pathOf(document, field)).toEqual(path);
    expect(linesOf(TEXT)(pathOf(document, field))).toBe(line);
  });
});
