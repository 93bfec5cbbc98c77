import { describe, expect, it } from "vitest";

import type { UsagePoint } from "@/api/schema";
import { stackUsage } from "@/features/overview/usage-panel";

describe("stacked usage", () => {
  const points: UsagePoint[] = [
    { at: "2026-01-01T00:00:00Z", total: 28, held: 9, by_tenant: { vision: 4, others: 3, speech: 2 } },
    { at: "2026-01-01T00:01:00Z", total: 28, held: 5, by_tenant: { vision: 5 } },
  ];

  it("adds each tenant on top of the ones before, others last and so on top", () => {
    const { layers, total } = stackUsage(points);
    expect(layers.map((layer) => layer.tenant)).toEqual(["others", "vision", "speech"]);
    expect(layers[0]?.values).toEqual([9, 5]);
    expect(layers[2]?.values).toEqual([2, 0]);
    expect(total).toEqual([28, 28]);
  });

  it("is empty without points", () => {
    expect(stackUsage([])).toEqual({ at: [], total: [], layers: [] });
  });
});
