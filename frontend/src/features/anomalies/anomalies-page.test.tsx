import { describe, expect, it } from "vitest";

import { delaySeries } from "@/features/anomalies/anomalies-page";

const at = (minute: number) => `2026-01-01T00:0${minute}:00Z`;

describe("waiting over time", () => {
  it("is in order, and in seconds while it is short", () => {
    const { x, series } = delaySeries([
      { at: at(2), real_seconds: 30, private_seconds: 10 },
      { at: at(1), real_seconds: 20, private_seconds: 0 },
    ]);
    expect(x).toEqual([Date.parse(at(1)) / 1000, Date.parse(at(2)) / 1000]);
    expect(series).toMatchObject([
      { label: "Here, seconds", values: [20, 30] },
      { label: "Alone, seconds", values: [0, 10] },
    ]);
  });

  it("is in minutes when somebody waited for some", () => {
    const { series } = delaySeries([{ at: at(1), real_seconds: 600, private_seconds: 0 }]);
    expect(series).toMatchObject([{ label: "Here, minutes", values: [10] }, { values: [0] }]);
  });
});
