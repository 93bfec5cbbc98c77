import { expect, test } from "vitest";

import type { Series } from "@/api/schema";
import { CURVES_MOST, curvesOf, unitOf } from "@/components/metrics/curves";

function gpu(index: number | null, points: number[][], attempt = 1): Series {
  return { kind: "gpu", attempt, node: null, gpu: index, rank: null, measure: "memory_used_bytes", points };
}

const GIB = 2 ** 30;

test("attempts follow one another on one curve, with a gap between them", () => {
  const second = gpu(null, [[100, 4 * GIB, 4 * GIB, 4 * GIB, 1]], 2);
  const first = gpu(null, [
    [0, 2 * GIB, GIB, 3 * GIB, 2],
    [10, 2 * GIB, GIB, 3 * GIB, 2],
  ]);
  const { x, curves } = curvesOf([second, first], 10);
  expect(x).toEqual([0, 10, 20, 100]);
  expect(curves).toEqual([{ label: "All GPUs", mean: [2, 2, null, 4], low: [1, 1, null, 4], high: [3, 3, null, 4] }]);
});

test("a GPU without a reading has none, and too many are left out", () => {
  const many = Array.from({ length: CURVES_MOST + 2 }, (_, index) => gpu(index, [[index * 10, 0, 0, 0, 1]]));
  const { curves, leftOut } = curvesOf(many, 10);
  expect(leftOut).toBe(2);
  expect(curves).toHaveLength(CURVES_MOST);
  expect(curves[1]?.mean.slice(0, 3)).toEqual([null, 0, null]);
});

test("a curve goes on where only another one has a point", () => {
  const series = [
    gpu(
      0,
      [0, 10, 20, 60].map((at) => [at, GIB, GIB, GIB, 1]),
    ),
    gpu(
      1,
      [0, 20, 60].map((at) => [at, GIB, GIB, GIB, 1]),
    ),
  ];
  const { x, curves } = curvesOf(series, 10);
  expect(x).toEqual([0, 10, 20, 30, 60]);
  expect(curves[1]?.mean).toEqual([1, undefined, 1, null, 1]);
});

test("units are the ends of names", () => {
  expect(unitOf("disk_read_bytes_per_second").name).toBe("MiB/s");
  expect(unitOf("network_sent_bytes_per_second", 4_000).name).toBe("KiB/s");
  expect(unitOf("memory_used_bytes", 300 * 2 ** 20).name).toBe("MiB");
  expect(unitOf("memory_used_bytes", 2 ** 40).name).toBe("GiB");
  expect(unitOf("cpus_used")).toEqual({ name: "", size: 1 });
});
