import { describe, expect, it } from "vitest";

import { editYaml, linesOf, parseYaml } from "@/components/yaml/document";

import cases from "../../../../tests/allot/yaml_cases.json";

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
    expect(parseYaml(TEXT, "A job").data).toMatchObject({
      name: "digits",
      tasks: [{ name: "train" }, { name: "eval" }],
    });
  });

  it("names the line of a syntax error", () => {
    const { data, problem } = parseYaml("name: digits\ntasks: [1, 2\nmore: {", "A job");
    expect(data).toBeNull();
    expect(problem?.line).toBeGreaterThan(1);
    expect(parseYaml("- a list", "A job").problem?.message).toMatch(/object/);
    expect(parseYaml("", "A job").problem).not.toBeNull();
  });

  it("says at which line a second document begins, and what would be right", () => {
    expect(parseYaml("---\nname: one\n---\nname: two\n---\nname: three\n", "A job")).toEqual({
      data: null,
      problem: {
        message: 'A job is one YAML document, and "---" starts another: remove that line and the document below it.',
        line: 3,
      },
    });
    expect(parseYaml("---\nname: one\n", "A job").problem).toBeNull();
  });

  it("keeps comments and everything else when the form changes one value", () => {
    const edited = editYaml(TEXT, ["tasks", 0, "resources", "gpu"], 4);
    expect(edited).toBe(TEXT.replace("gpu: 1", "gpu: 4"));
  });

  it("adds what is missing on the way, and removes", () => {
    const added = editYaml(TEXT, ["checkpoint", "grace_seconds"], 60);
    expect(parseYaml(added, "A job").data).toMatchObject({ checkpoint: { grace_seconds: 60 } });
    expect(parseYaml(editYaml(added, ["checkpoint"], undefined), "A job").data).not.toHaveProperty("checkpoint");
  });

  it("is left alone by the form while it is not YAML", () => {
    expect(editYaml("name: [", ["name"], "x")).toBe("name: [");
  });

  it.each([
    ["env: &a {X: 1}\nlabels: &b\n  x: {y: *b}", 3, /inside of &b/],
    ["name: a\nlabels: *b", 2, /no &b is above/],
    ["name: a\n? *b\n: 1", 2, /no &b is above/],
    ["name: a\n<<: 5", 1, /Merge sources/],
    [`name: &a a\nlabels: [${"*a, ".repeat(200)}]`, 1, /alias count/],
  ])("says what is wrong with an alias or a merge: %j", (text, line, message) => {
    const { data, problem } = parseYaml(text, "A job");
    expect({ data, line: problem?.line }).toEqual({ data: null, line });
    expect(problem?.message).toMatch(message);
  });

  it("leaves a text as it is while an alias in it stands for nothing", () => {
    expect(editYaml("name: a\nlabels: *b\n", ["name"], "c")).toBe("name: a\nlabels: *b\n");
  });

  it("tells the line of a field, or of what is nearest to a missing one", () => {
    const lineOf = linesOf(TEXT);
    expect(lineOf(["name"])).toBe(2);
    expect(lineOf(["tasks", "0", "resources", "gpu"])).toBe(6);
    expect(lineOf(["tasks", "1", "resources", "gpu"])).toBe(10);
    expect(lineOf(["tasks", "1", "replicas"])).toBe(9);
    expect(lineOf(["virtual_cluster"])).toBe(1);
  });
});

describe("what YAML says here is what it says to the command line", () => {
  it.each(cases)("$what", ({ yaml, value, line }: { yaml: string; value?: unknown; line?: number }) => {
    const indented = yaml.split("\n").map((each) => `  ${each}`);
    const { data, problem } = parseYaml(["job:", ...indented].join("\n"), "A job");
    if (line === undefined) expect({ data, problem }).toEqual({ data: { job: value }, problem: null });
    else expect([data, problem?.line]).toEqual([null, line + 1]);
  });

  it("edits leave the texts of others as they are written", () => {
    const text = "name: a\nenv: {V: 1.10, O: 0012}\n";
    expect(editYaml(text, ["name"], "b")).toBe(text.replace("name: a", "name: b"));
  });
});
