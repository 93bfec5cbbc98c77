/** Who is on which GPU: racks of nodes of plots, from the nodes' and jobs' newest versions. */

import type { Gpu, Job, Node } from "@/api/schema";

export type PlotState = "free" | "planned" | "starting" | "running" | "stopping" | "unknown" | "unhealthy" | "offline";

export interface Plot {
  gpu: Gpu;
  state: PlotState;
  /** The job that holds the GPU, when the viewer may see it. */
  job: Job | null;
  /** The job that takes it next. */
  successor: Job | null;
}

export interface Bed {
  node: Node;
  plots: Plot[];
}

export interface Rack {
  name: string;
  beds: Bed[];
}

interface Holders {
  job?: Job;
  successor?: Job;
}

/** Jobs by the GPUs they hold or will take. */
export function holdersByGpu(jobs: Iterable<Job>): Map<number, Holders> {
  const holders = new Map<number, Holders>();
  for (const job of jobs) {
    const attempt = job.attempt;
    if (!attempt || attempt.state === "ended") continue;
    const role = attempt.state === "planned" ? "successor" : "job";
    for (const part of attempt.placement) {
      if (part.state === "released") continue;
      for (const gpu of part.gpus) holders.set(gpu.id, { ...holders.get(gpu.id), [role]: job });
    }
  }
  return holders;
}

const byName = new Intl.Collator("en", { numeric: true }).compare;

export function plantGarden(nodes: Iterable<Node>, jobs: Iterable<Job>): Rack[] {
  const holders = holdersByGpu(jobs);
  const racks = new Map<string, Bed[]>();
  for (const node of nodes) {
    const beds = racks.get(node.rack) ?? [];
    beds.push(bedOf(node, holders));
    racks.set(node.rack, beds);
  }
  return [...racks]
    .map(([name, beds]) => ({ name, beds: beds.sort((a, b) => byName(a.node.name, b.node.name)) }))
    .sort((a, b) => byName(a.name, b.name));
}

export function bedOf(node: Node, holders: Map<number, Holders>): Bed {
  const plots = [...node.gpus]
    .sort((a, b) => a.index - b.index)
    .map((gpu) => {
      const { job = null, successor = null } = holders.get(gpu.id) ?? {};
      return { gpu, job, successor, state: stateOf(node, gpu, job) };
    });
  return { node, plots };
}

function stateOf(node: Node, gpu: Gpu, job: Job | null): PlotState {
  if (node.state !== "ready") return "offline";
  if (!gpu.healthy) return "unhealthy";
  if (gpu.state === "free") return "free";
  if (gpu.state === "planned") return "planned";
  const phase = job?.attempt?.state;
  if (phase === "starting" || phase === "running" || phase === "stopping") return phase;
  return "unknown";
}

export const STATE_TEXT: Record<PlotState, string> = {
  free: "Free",
  planned: "Nominated",
  starting: "Starting",
  running: "Running",
  stopping: "Stopping",
  unknown: "In use by another tenant",
  unhealthy: "Unhealthy",
  offline: "Node not connected",
};

/** One plot in a sentence, for the tooltip's heading and for screen readers. */
export function describePlot(bed: Bed, plot: Plot): string {
  const who = plot.job ? `, job ${plot.job.id} ${plot.job.name} of ${plot.job.tenant}` : "";
  const next = plot.successor ? `, next: job ${plot.successor.id} ${plot.successor.name}` : "";
  return `${bed.node.name} GPU ${plot.gpu.index}, ${bed.node.gpu_model ?? "unknown model"}: ${STATE_TEXT[plot.state]}${who}${next}`;
}
