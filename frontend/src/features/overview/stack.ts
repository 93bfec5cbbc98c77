/** Turns usage points into the layers of a stacked chart. Pure. */

import type { UsagePoint } from "@/api/schema";

export interface Layers {
  /** Seconds since 1970. */
  at: number[];
  total: number[];
  /** From the top of the stack down: each layer's values include all below it. */
  layers: { tenant: string; values: number[] }[];
}

export function stackUsage(points: readonly UsagePoint[]): Layers {
  const tenants = [...new Set(points.flatMap((point) => Object.keys(point.by_tenant)))].sort(othersLast);
  const below = points.map(() => 0);
  const layers = tenants.map((tenant) => {
    points.forEach((point, index) => (below[index] = (below[index] ?? 0) + (point.by_tenant[tenant] ?? 0)));
    return { tenant, values: [...below] };
  });
  return {
    at: points.map((point) => Date.parse(point.at) / 1000),
    total: points.map((point) => point.total),
    // Drawn from the top down, so that each lower layer covers the one above it.
    layers: layers.reverse(),
  };
}

/** What the viewer may not see by name is on top of the stack. */
function othersLast(a: string, b: string): number {
  return Number(a === OTHERS) - Number(b === OTHERS) || a.localeCompare(b);
}

export const OTHERS = "others";
