/** How a job scales, as curves and words. Pure. */

import type { JobScaling, ScalingAllocation, ScalingNow } from "@/api/schema";
import { count, counted } from "@/components/format";

/** A step is drawn as two points so near that they look like one. */
const INSTANT_SECONDS = 0.001;

/** GPUs over time: a level for as long as an attempt had them, and none in between. */
export function gpuSteps(
  allocations: readonly ScalingAllocation[],
  nowSeconds: number,
): { x: number[]; values: number[] } {
  const x: number[] = [];
  const values: number[] = [];
  const add = (at: number, gpus: number) => {
    x.push(Math.max(at, (x.at(-1) ?? -Infinity) + INSTANT_SECONDS));
    values.push(gpus);
  };
  for (const { since, until, gpus } of allocations) {
    if (x.length > 0) add(secondsOf(since) - INSTANT_SECONDS, 0);
    add(secondsOf(since), gpus);
    add(until === null ? nowSeconds : secondsOf(until), gpus);
    if (until !== null) add(secondsOf(until) + INSTANT_SECONDS, 0);
  }
  return { x, values };
}

function secondsOf(time: string): number {
  return new Date(time).getTime() / 1000;
}

/** What the job may have: "1 to 8 GPUs, adaptive". */
export function rangeText({ is_elastic, min_gpus, max_gpus, mode }: JobScaling): string {
  if (!is_elastic) return counted(max_gpus, "GPU");
  return `${min_gpus} to ${counted(max_gpus, "GPU")}, ${(mode ?? "").replaceAll("_", " ")}`;
}

/** Batch, learning rate, efficiency and goodput now. */
export function factsOfNow(now: ScalingNow): [string, string][] {
  const divided = now.accumulation > 0 ? `, ${now.accumulation + 1} gradients each` : "";
  const facts: [string, string][] = [
    ["Batch", `${count(now.batch_size)} (${count(now.local_batch)} a gradient${divided})`],
    ["Learning rate", `× ${now.lr_factor.toFixed(2)}`],
  ];
  if (now.efficiency !== null) facts.push(["Efficiency", `${Math.round(100 * now.efficiency)} %`]);
  if (now.goodput !== null) facts.push(["Goodput", `${count(now.goodput)} samples/s`]);
  if (now.overhead !== null) facts.push(["Measuring takes", `${(100 * now.overhead).toFixed(1)} %`]);
  if (now.speedup !== null)
    facts.push(["Predicted speedup", `${now.speedup.toFixed(2)} with ${counted(now.gpus, "GPU")}`]);
  return facts;
}

/** What the prediction rests on, in one sentence. */
export function evidenceText({ rests_on }: JobScaling): string {
  if (!rests_on) return "";
  const { ways, iterations, most_replicas } = rests_on;
  return (
    `By ${counted(ways, "way")} of running, timed over ${count(iterations)} iterations with up to ` +
    `${counted(most_replicas, "replica")}; what was not tried is believed to be as good as can be.`
  );
}
