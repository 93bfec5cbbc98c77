/** The curves of what jobs report about their training. Pure. */

import type { ProgressPoint } from "@/api/schema";

/** They tell how far it is, not how well it goes. */
const NOT_CURVES = new Set([
  "restored_step",
  "total_steps",
  // What an adaptive job tells of its limits and times: the card "Scaling" is made of it.
  "initial_batch",
  "max_batch",
  "min_local_batch",
  "max_local_batch",
  "timed_iterations",
  "grad_sqr",
  "grad_var",
]);

/** Names of the values that the points carry, in the order in which they first appear. */
export function metricsOf(points: readonly ProgressPoint[]): string[] {
  return [...new Set(points.flatMap((point) => Object.keys(point.values)))].filter((name) => !NOT_CURVES.has(name));
}

/** One value over steps. Steps that a later attempt did again count as that attempt did them. */
export function curveOf(
  points: readonly ProgressPoint[],
  metric: string,
): { steps: number[]; values: (number | null)[] } {
  const byStep = new Map<number, { attempt: number; value: number | null }>();
  for (const { step, attempt, values } of points) {
    const known = byStep.get(step);
    if (known && known.attempt > attempt) continue;
    byStep.set(step, { attempt, value: values[metric] ?? known?.value ?? null });
  }
  const ordered = [...byStep].sort(([a], [b]) => a - b);
  return { steps: ordered.map(([step]) => step), values: ordered.map(([, { value }]) => value) };
}
