import { expect, it } from "vitest";

import { gpuAmount, gpusText, indexesText, modelText, processorLines } from "@/components/gpu-amount";

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

it("tells of a job without GPUs what it takes instead", () => {
  expect(modelText({ gpus: 0, gpu_models: [], attempt: null })).toBe("no GPU");
  expect(modelText({ gpus: 2, gpu_models: ["V100", "P100"], attempt: null })).toBe("V100 or P100");
  expect(indexesText([])).toBe("none");
  const prepares = { ...task(0, 2), resources: { gpu: 0, cpu: 4, memory: 2 ** 33 } };
  expect(processorLines([prepares])).toEqual(["4 CPUs, 8 GiB each"]);
  expect(processorLines([task(1), { ...prepares, name: "helper", replicas: 1 }])).toEqual(["helper: 4 CPUs, 8 GiB"]);
  expect(processorLines([{ ...task(1), resources: { gpu: 1, cpu: "auto", memory: 0 } }])).toEqual([]);
});
