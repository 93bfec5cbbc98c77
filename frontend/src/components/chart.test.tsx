import { expect, test } from "vitest";

import { placeBeside, readingsAt } from "@/components/chart";
import { axisWidth } from "@/components/chart-drawing";

test("a layer of a stack says its own height, a mean says its range, and a gap says nothing", () => {
  const layer = { token: "crop-1", stacked: true };
  const series = [
    { ...layer, label: "vision", values: [9] },
    { ...layer, label: "speech", values: [5] },
    { label: "Mean", token: "crop-2", values: [12.34567], band: { low: [1], high: [20] } },
    { label: "All", token: "ink", dashed: true, values: [36], band: { low: [36], high: [36] } },
    { label: "Gone", token: "ink", values: [null] },
  ];
  const said = readingsAt(series, 0).map(({ label, text }) => `${label} ${text}`);
  expect(said).toEqual(["vision 4", "speech 5", "Mean 12.35 (1 – 20)", "All 36"]);
});

test("the box lies on the side of the pointer where there is more room", () => {
  const window = { width: 400, height: 800 };
  expect(placeBeside({ x: 20, y: 10 }, window, 10)).toEqual({ left: 30, top: 20 });
  expect(placeBeside({ x: 390, y: 790 }, window, 10)).toEqual({ right: 20, bottom: 20 });
});

test("the vertical axis is as wide as its longest label", () => {
  expect(axisWidth(["0", "10", "30"])).toBe(44);
  expect(axisWidth(["0.00075", "0.0005"])).toBeGreaterThan(44);
  expect(axisWidth(["0.000025"]) - axisWidth(["0.00025"])).toBe(7);
});
