import { expect, it } from "vitest";

import { writtenField } from "@/features/submit/short-form";

const SHORT = { name: "x", gpus: 16, command: "hi", resources: { cpu: 4 } };

it.each([
  ["tasks.0.resources.gpu", SHORT, "gpus"],
  ["tasks.0.replicas", SHORT, "replicas"],
  ["tasks.0.resources.cpu", SHORT, "resources.cpu"],
  ["tasks.0.resources.gpu", { command: "hi", resources: { gpu: 16 } }, "resources.gpu"],
  ["tasks.0.resources.gpu_model", { command: "hi", gpu_model: "V1OO" }, "gpu_model"],
  ["tasks.0.resources.gpu", { tasks: [{ command: "hi" }] }, "tasks.0.resources.gpu"],
  ["virtual_cluster", SHORT, "virtual_cluster"],
])("%s of %j is written as %s", (field, spec, written) => {
  expect(writtenField(field, spec)).toBe(written);
});
