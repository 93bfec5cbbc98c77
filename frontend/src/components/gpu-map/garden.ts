/** Who is on which GPU: racks of nodes of plots, from the nodes' and jobs' newest versions. */

import type { MapGpu, MapNode } from "@/api/schema";
import type { SeenJob } from "@/live/store";

export type PlotState =
  "free" | "planned" | "closed" | "starting" | "running" | "stopping" | "unknown" | "unhealthy" | "offline";

/** A job that has a part of a GPU, or all of it together with others. */
export interface Sharer<J = SeenJob> {
  job: J;
  /** What is drawn of the GPU for it, 0 to 1. */
  part: number;
}

export interface Plot<J = SeenJob, G = MapGpu> {
  gpu: G;
  state: PlotState;
  /** The job that holds the GPU, when the viewer may see it; the first of several. */
  job: J | null;
  /** Those that share it, as far as the viewer may see them; none where it is one job's. */
  sharers: readonly Sharer<J>[];
  /** The job that takes it next. */
  successor: J | null;
}

/** Of whole jobs and nodes, or of what the map shows of them. */
export interface Bed<J = SeenJob, N extends MapNode = MapNode> {
  node: N;
  plots: Plot<J, N["gpus"][number]>[];
}

export interface Rack {
  name: string;
  beds: Bed[];
}

interface Holders<J> {
  jobs: Sharer<J>[];
  successor?: J;
}

/** Jobs by the GPUs they hold or will take. */
export function holdersByGpu<J extends SeenJob>(jobs: Iterable<J>): Map<number, Holders<J>> {
  const holders = new Map<number, Holders<J>>();
  for (const job of jobs) {
    const attempt = job.attempt;
    if (!attempt || attempt.state === "ended") continue;
    const role = attempt.state === "planned" ? "successor" : "job";
    for (const part of attempt.placement) {
      if (part.state === "exited") continue;
      for (const gpu of part.gpus) {
        const here = holders.get(gpu.id) ?? { jobs: [] };
        if (role === "successor") here.successor = job;
        else here.jobs.push({ job, part: gpu.part ?? 1 });
        holders.set(gpu.id, here);
      }
    }
  }
  return holders;
}

const byName = new Intl.Collator("en", { numeric: true }).compare;

export function plantGarden(nodes: Iterable<MapNode>, jobs: Iterable<SeenJob>): Rack[] {
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

export function bedOf<J extends SeenJob, N extends MapNode>(node: N, holders: Map<number, Holders<J>>): Bed<J, N> {
  const gpus: N["gpus"][number][] = [...node.gpus];
  const plots = gpus
    .sort((a, b) => a.index - b.index)
    .map((gpu) => {
      const { jobs = [], successor = null } = holders.get(gpu.id) ?? {};
      const job = jobs[0]?.job ?? null;
      return { gpu, job, sharers: sharersOf(jobs), successor, state: stateOf(node, gpu, job) };
    });
  return { node, plots };
}

function sharersOf<J extends SeenJob>(jobs: readonly Sharer<J>[]): readonly Sharer<J>[] {
  if (jobs.length < 2 && jobs.every(({ part }) => part === 1)) return [];
  // Who has all of it together with others is drawn with an even part.
  const sorted = [...jobs].sort((a, b) => a.job.id - b.job.id);
  return sorted.map(({ job, part }) => ({ job, part: part < 1 ? part : 1 / jobs.length }));
}

/** The jobs on a GPU that the viewer may see. */
export function jobsOn({ job, sharers }: Plot): SeenJob[] {
  if (sharers.length > 0) return sharers.map((sharer) => sharer.job);
  return job ? [job] : [];
}

export type Tally = ReturnType<typeof tallyOf>;

/** How many nodes and GPUs there are, and in which states, in one walk over all plots. */
export function tallyOf(racks: readonly Rack[]) {
  const found = {
    nodes: 0,
    ready: 0,
    lost: 0,
    closed: 0,
    gpus: 0,
    held: 0,
    seen: 0,
    shared: 0,
    opportunistic: 0,
  };
  const byState = new Map<PlotState, number>();
  const byTenant = new Map<string, number>();
  for (const { node, plots } of racks.flatMap((rack) => rack.beds)) {
    found.nodes += 1;
    found.gpus += plots.length;
    if (node.state === "ready") found.ready += 1;
    if (node.state === "lost") found.lost += 1;
    if (node.state === "ready" && isClosed(node)) found.closed += 1;
    for (const plot of plots) {
      const jobs = jobsOn(plot);
      byState.set(plot.state, (byState.get(plot.state) ?? 0) + 1);
      for (const tenant of new Set(jobs.map((job) => job.tenant)))
        byTenant.set(tenant, (byTenant.get(tenant) ?? 0) + 1);
      if (plot.gpu.state === "held") found.held += 1;
      // A GPU of which jobs have parts counts once, as it does for the cluster.
      if (jobs.length > 0) found.seen += 1;
      if (plot.sharers.length > 0) found.shared += 1;
      if (jobs.some(({ guarantee }) => guarantee === "opportunistic")) found.opportunistic += 1;
    }
  }
  return { ...found, byState, byTenant };
}

/** What of a shared GPU is in use by jobs that the viewer may not see, 0 to 1. */
export function unseenPart({ gpu, sharers }: Plot): number {
  return Math.max(
    0,
    sharers.reduce((left, { part }) => left - part, gpu.in_use),
  );
}

/** "0.3 digits #7 of vision"; of those who have all of a GPU together there is no part to tell. */
export function sharerText({ job, part }: Sharer, gpu: MapGpu): string {
  const placed = job.attempt?.placement.flatMap(({ gpus }) => gpus).find(({ id }) => id === gpu.id);
  return `${placed?.part === undefined ? "" : `${part} `}${job.name} #${job.id} of ${job.tenant}`;
}

/** Whether no job can start on the node, though its agent is connected: as the FREE column of `allot nodes` has it. */
export function isClosed({ cordoned, maintenance, loan }: Pick<MapNode, "cordoned" | "maintenance" | "loan">): boolean {
  // Until an announced window begins, jobs that end in time still start.
  const inMaintenance = maintenance !== null && maintenance.state !== "announced";
  return cordoned || inMaintenance || (loan !== null && loan.state !== "lent");
}

function stateOf(node: MapNode, gpu: MapGpu, job: SeenJob | null): PlotState {
  if (node.state !== "ready") return "offline";
  if (!gpu.healthy) return "unhealthy";
  if (gpu.state !== "held" && isClosed(node)) return "closed";
  if (gpu.state === "free") return "free";
  if (gpu.state === "planned") return "planned";
  const phase = job?.attempt?.state;
  if (phase === "starting" || phase === "running" || phase === "stopping") return phase;
  return "unknown";
}

export const STATE_TEXT: Record<PlotState, string> = {
  free: "Free",
  planned: "Nominated",
  closed: "Closed to jobs",
  starting: "Starting",
  running: "Running",
  stopping: "Stopping",
  unknown: "In use by another tenant",
  unhealthy: "Unhealthy",
  offline: "Node not connected",
};

/** One plot in a sentence, for the tooltip's heading and for screen readers. */
export function describePlot(bed: Bed, plot: Plot): string {
  if (plot.sharers.length > 0) return `${placeText(bed, plot)}: shared by ${sharersText(plot)}${nextText(plot)}`;
  const who = plot.job ? `, job ${plot.job.id} ${plot.job.name} of ${plot.job.tenant}` : "";
  return `${placeText(bed, plot)}: ${STATE_TEXT[plot.state]}${who}${nextText(plot)}`;
}

function placeText(bed: Bed, plot: Plot): string {
  return `${bed.node.name} GPU ${plot.gpu.index}, ${bed.node.gpu_model ?? "unknown model"}`;
}

function sharersText(plot: Plot): string {
  const unseen = unseenText(plot);
  return [...plot.sharers.map((sharer) => sharerText(sharer, plot.gpu)), ...(unseen ? [unseen] : [])].join(", ");
}

/** "0.5 other tenants"; empty where there is nothing of theirs. */
export function unseenText(plot: Plot): string {
  const unseen = unseenPart(plot);
  return unseen > LEAST_PART / 2 ? `${Number(unseen.toFixed(3))} other tenants` : "";
}

/** Parts are counted in thousandths. */
const LEAST_PART = 0.001;

function nextText({ successor }: Plot): string {
  return successor ? `, next: job ${successor.id} ${successor.name}` : "";
}
