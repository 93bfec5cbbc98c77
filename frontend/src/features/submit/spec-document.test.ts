import { describe, expect, it } from "vitest";

import { editSpec, lineOf, parseSpec } from "@/features/submit/spec-document";

const TEXT = `# my first job
name: digits # keep this
tasks:
  - name: train
    resources:
      gpu: 1
      gpu_model: any
    command: python train.py
  - name: eval
    resources: {gpu: 2}
    command: python eval.py
`;

describe("the specification's text", () => {
  it("is read as plain data", () => {
    expect(parseSpec(TEXT).spec).toMatchObject({ name: "digits", tasks: [{ name: "train" }, { name: "eval" }] });
  });

  it("names the line of a syntax error", () => {
    const { spec, problem } = parseSpec("name: digits\ntasks: [1, 2\nmore: {");
    expect(spec).toBeNull();
    expect(problem?.line).toBeGreaterThan(1);
    expect(parseSpec("- a list").problem?.message).toMatch(/object/);
    expect(parseSpec("").problem).not.toBeNull();
  });

  it("keeps comments and everything else when the form changes one value", () => {
    const edited = editSpec(TEXT, ["tasks", 0, "resources", "gpu"], 4);
    expect(edited).toBe(TEXT.replace("gpu: 1", "gpu: 4"));
  });

  it("adds what is missing on the way, and removes", () => {
    const added = editSpec(TEXT, ["checkpoint", "grace_seconds"], 60);
    expect(parseSpec(added).spec).toMatchObject({ checkpoint: { grace_seconds: 60 } });
    expect(parseSpec(editSpec(added, ["checkpoint"], undefined)).spec).not.toHaveProperty("checkpoint");
  });

  it("is left alone by the form while it is not YAML", () => {
    expect(editSpec("name: [", ["name"], "x")).toBe("name: [");
  });

  it("tells the line of a field, or of what is nearest to a missing one", () => {
    expect(lineOf(TEXT, "name")).toBe(2);
    expect(lineOf(TEXT, "tasks.0.resources.gpu")).toBe(6);
    expect(lineOf(TEXT, "tasks.1.resources.gpu")).toBe(10);
    expect(lineOf(TEXT, "tasks.1.replicas")).toBe(9);
    expect(lineOf(TEXT, "virtual_cluster")).toBe(1);
  });
});
