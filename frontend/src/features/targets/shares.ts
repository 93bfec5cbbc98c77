/** What is shown of targets: columns, sums, words. Pure. */

import type { JobTargets, TenantTargets } from "@/api/schema";
import { count } from "@/components/format";

/** Below this a share is nothing one could see. */
const NEGLIGIBLE = 0.005;

/** GPU models that are guaranteed or meant for somebody. */
export function modelsOf(guaranteed: Readonly<Record<string, number>>, tenants: readonly TenantTargets[]): string[] {
  const meant = tenants.flatMap(({ gpus }) => Object.keys(gpus));
  return [...new Set([...Object.keys(guaranteed), ...meant])].sort();
}

/** GPUs of a model that are meant for all tenants together, on average. */
export function meantFor(tenants: readonly TenantTargets[], model: string): number {
  return tenants.reduce((sum, { gpus }) => sum + (gpus[model] ?? 0), 0);
}

/** "1.3", and nothing for next to nothing. */
export function gpusText(gpus: number | undefined): string {
  return gpus === undefined || gpus < NEGLIGIBLE ? "–" : count(gpus);
}

/** Whether a job has no time of its own on any model, and only takes what others leave. */
export function isLeftOver({ targets }: JobTargets): boolean {
  return Object.values(targets).every((share) => share < NEGLIGIBLE);
}
