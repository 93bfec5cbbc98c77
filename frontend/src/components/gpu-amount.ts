/** How many GPUs, of which some may be parts. */

import type { Attempt, Job, JobSpec } from "@/api/schema";
import { bytes, counted } from "@/components/format";

type Tasks = JobSpec["tasks"];

/** "2"; where replicas have parts, which are of a GPU each, "0.3", "4×0.25" or "2 + 4×0.25". */
export function gpuAmount(gpus: number, tasks: Tasks): string {
  const parts = new Map<number, number>();
  for (const { resources, replicas = 1 } of tasks) {
    const part = resources.gpu;
    if (part > 0 && part < 1) parts.set(part, (parts.get(part) ?? 0) + replicas);
  }
  const whole = [...parts.values()].reduce((left, replicas) => left - replicas, gpus);
  const terms = [...parts].map(([part, replicas]) => (replicas === 1 ? String(part) : `${replicas}×${part}`));
  return (whole > 0 || terms.length === 0 ? [String(whole), ...terms] : terms).join(" + ");
}

/** "2 GPUs", "0.3 of one GPU", "4×0.25 GPU". */
export function gpusText(gpus: number, tasks: Tasks): string {
  const amount = gpuAmount(gpus, tasks);
  if (amount === String(gpus)) return counted(gpus, "GPU");
  return gpus === 1 ? `${amount} of one GPU` : `${amount} GPU`;
}

/** The GPUs that it asks for; of an elastic job with an attempt, those that it has. */
export function gpusNow({ gpus, spec, attempt }: Job): string {
  return spec.elastic && attempt ? String(gpusHeld(attempt)) : gpuAmount(gpus, spec.tasks);
}

/** Of what model its GPUs are, or may be: "V100", "V100 or P100", "any GPU"; of a job without GPUs, "no GPU". */
export function modelText({ gpus, gpu_models: models, attempt }: Pick<Job, "gpus" | "gpu_models" | "attempt">): string {
  if (gpus === 0) return "no GPU";
  return attempt?.gpu_model ?? (models.length > 0 ? models.join(" or ") : "any GPU");
}

/** What each replica of a task states of CPUs and memory: "main: 4 CPUs, 8 GiB"; nothing where it states none. */
export function processorLines(tasks: Tasks): string[] {
  return tasks.flatMap(({ name, replicas = 1, resources: { cpu, memory } }) => {
    const said = [
      typeof cpu === "number" && cpu > 0 ? counted(cpu, "CPU") : "",
      typeof memory === "number" && memory > 0 ? bytes(memory) : "",
    ].filter(Boolean);
    const each = replicas > 1 ? " each" : "";
    return said.length > 0 ? [`${tasks.length > 1 ? `${name ?? "main"}: ` : ""}${said.join(", ")}${each}`] : [];
  });
}

/** On how many GPUs an attempt is. */
export function gpusHeld(attempt: Attempt): number {
  return attempt.placement.reduce((sum, part) => sum + part.gpus.length, 0);
}

/** "0, 1", or "0.3 of GPU 3"; "none". */
export function indexesText(gpus: Attempt["placement"][number]["gpus"]): string {
  if (gpus.length === 0) return "none";
  return gpus.map(({ index, part }) => (part === undefined ? String(index) : `${part} of GPU ${index}`)).join(", ");
}
