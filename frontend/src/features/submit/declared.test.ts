import { describe, expect, it } from "vitest";

import { DECLARED, placeToRemove, valueAt } from "@/features/submit/declared";

const field = (where: string) => DECLARED.find((each) => each.where === where);

describe("declared fields", () => {
  it("are those that the server gives a label, with their kinds and bounds", () => {
    expect(field("priority")).toMatchObject({ label: "Priority", kind: "number", minimum: -100, maximum: 100 });
    expect(field("time_limit")).toMatchObject({ kind: "text", placeholder: "2h" });
    expect(field("on_reclaim")).toMatchObject({ kind: "choice", choices: ["preempt", "downgrade"] });
    expect(field("nodes.only")).toMatchObject({ kind: "words" });
    expect(field("checkpoint.grace_seconds")).toMatchObject({ kind: "number", isWhole: true, placeholder: "30" });
    expect(field("tasks.replicas")).toBeUndefined();
  });

  it("are named once each", () => {
    const labels = DECLARED.map(({ label }) => label);
    expect(new Set(labels).size).toBe(labels.length);
    expect(DECLARED.every(({ hint }) => hint.length > 0)).toBe(true);
  });
});

describe("places", () => {
  const spec = { nodes: { only: ["a"] }, checkpoint: { grace_seconds: 5, other: 1 }, name: "x" };

  it("are read, whatever stands in their way", () => {
    expect(valueAt(spec, "nodes.only")).toEqual(["a"]);
    expect(valueAt(spec, "name.only")).toBeUndefined();
    expect(valueAt(null, "name")).toBeUndefined();
  });

  it("go with the object that would be empty without them", () => {
    expect(placeToRemove(spec, "nodes.only")).toEqual(["nodes"]);
    expect(placeToRemove(spec, "checkpoint.grace_seconds")).toEqual(["checkpoint", "grace_seconds"]);
    expect(placeToRemove(spec, "name")).toEqual(["name"]);
  });
});
