import { expect, it } from "vitest";

import { gpuAmount, gpusText, indexesText } from "@/components/gpu-amount";

const task = (gpu: number, replicas = 1) => ({ name: "main", replicas, resources: { gpu }, command: ["true"] });

it("tells parts as parts, each of a GPU of its own", () => {
  expect(gpusText(2, [task(1, 2)])).toBe("2 GPUs");
  expect(gpusText(1, [task(0.3)])).toBe("0.3 of one GPU");
  expect(gpusText(4, [task(0.25, 4)])).toBe("4×0.25 GPU");
  expect(gpuAmount(4, [task(0.25, 4)])).toBe("4×0.25");
  expect(gpuAmount(6, [task(2), task(0.25, 4)])).toBe("2 + 4×0.25");
  expect(gpuAmount(0, [task(0)])).toBe("0");
});

it("tells which part of which GPU an attempt has", () => {
  expect(
    indexesText([
      { id: 7, index: 0 },
      { id: 8, index: 1 },
    ]),
  ).toBe("0, 1");
  expect(indexesText([{ id: 9, index: 3, part: 0.3 }])).toBe("0.3 of GPU 3");
});
