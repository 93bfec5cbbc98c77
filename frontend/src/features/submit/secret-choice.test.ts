import { expect, test } from "vitest";

import { asUses, asVariable, chosenNames } from "@/features/submit/secret-choice";

test("a secret whose name is a variable's is named in short", () => {
  expect(asVariable("HF_TOKEN")).toBe("HF_TOKEN");
});

test("another is given a variable made of its name", () => {
  expect(asVariable("hf-token")).toEqual({ name: "hf-token", env: "HF_TOKEN" });
  expect(asVariable("3d.key")).toEqual({ name: "3d.key", env: "_3D_KEY" });
});

test("what is not a list of secrets names none", () => {
  expect(asUses("HF_TOKEN")).toEqual([]);
  expect(chosenNames(asUses(["A", { name: "b", file: "b" }, 7, { env: "C" }, null]))).toEqual(["A", "b"]);
});
