import { describe, expect, it } from "vitest";

import type { ProgressPoint } from "@/api/schema";
import { curveOf, metricsOf } from "@/components/metrics/progress-curves";

function point(step: number, values: Record<string, number>, attempt = 1): ProgressPoint {
  return { attempt, at: "2026-01-01T00:00:00Z", step, samples: null, values };
}

describe("progress curves", () => {
  it("go by step, whatever the order of arrival", () => {
    expect(curveOf([point(2, { loss: 0.5 }), point(1, { loss: 0.9 })], "loss")).toEqual({
      steps: [1, 2],
      values: [0.9, 0.5],
    });
  });

  it("take the later attempt where a resumed job repeats steps", () => {
    const points = [point(1, { loss: 0.9 }), point(2, { loss: 0.5 }), point(2, { loss: 0.6 }, 2)];
    expect(curveOf(points, "loss").values).toEqual([0.9, 0.6]);
    expect(curveOf([...points].reverse(), "loss").values).toEqual([0.9, 0.6]);
  });

  it("leave a hole where a point lacks the value", () => {
    const points = [point(1, { loss: 1, restored_step: 1 }), point(2, { accuracy: 0.4, total_steps: 9 })];
    expect(metricsOf(points)).toEqual(["loss", "accuracy"]);
    expect(curveOf(points, "loss").values).toEqual([1, null]);
  });
});
