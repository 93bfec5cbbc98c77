/** Why a job is on its GPU model, in a sentence or two. Pure. */

import type { JobModelThroughput, JobThroughputs } from "@/api/schema";
import { percent } from "@/components/throughputs/sources";
import { bytes, count } from "@/components/format";

/** Nearer than this, two models are equally fast for the job. */
const SAME_SPEED = 1.05;

/** What the job makes of GPUs that it has alone, by which policies decide who shares with it. */
export function profileSentence({ profile }: Pick<JobThroughputs, "profile">): string {
  if (!profile) {
    return "Profile: not measured yet, so policies that use profiles do not let it share GPUs.";
  }
  const { utilisation, memory_utilisation: memory, memory_bytes: size, stages } = profile;
  const facts = [
    utilisation !== null && `computes ${percent(utilisation)} of the time`,
    memory !== null && `uses its memory ${percent(memory)} of the time`,
    size !== null && `occupies ${bytes(size)} of a GPU`,
    stages && `${stages[0]} s of an iteration on storage, ${stages[1]} s on the GPU, ${stages[2]} s on the network`,
    profile.amp && "mixed precision",
  ];
  return `Profile${profile.is_own ? "" : ", of jobs like it"}: ${facts.filter(Boolean).join("; ")}.`;
}

/** The models of which more is known than their name and price. */
export function modelsWithFacts({ models }: Pick<JobThroughputs, "models">): JobModelThroughput[] {
  return models.filter(
    (model) =>
      model.runs_now ||
      model.throughput !== null ||
      model.target_share !== null ||
      model.received_share !== null ||
      model.attained_gpu_seconds > 0,
  );
}

/** Whether anything explains on which model the job runs, or would. */
export function explainsModel(throughputs: JobThroughputs): boolean {
  return throughputs.profile !== null || modelsWithFacts(throughputs).length > 0;
}

/** Where it runs or would be best off, compared with the model that differs most. */
export function throughputSentence(throughputs: JobThroughputs): string {
  const accepted = throughputs.models.filter((model) => model.accepted && model.throughput !== 0);
  // What is only assumed is no ground for a comparison.
  const usable = accepted.filter(({ throughput, source }) => throughput !== null && source !== "assumed");
  const fastest = extreme(usable, (a, b) => a > b);
  const slowest = extreme(usable, (a, b) => a < b);
  const here = throughputs.models.find(({ runs_now }) => runs_now);
  const start = here ? `Runs on ${here.gpu_model}` : "Not running now";
  if (accepted.length === 1) return `${start}${here ? ", the only model that suits it" : ""}.`;
  if (!fastest || !slowest)
    return `${start}. Its throughputs are not known: it is assumed to be equally fast on every model.`;
  if (usable.length === 1)
    return `${start}. Its throughput is known on ${fastest.gpu_model} only, and assumed to be the same on others.`;
  if (times(fastest, slowest) < SAME_SPEED) return `${start}; it is equally fast on every model that it may use.`;
  if (here && usable.includes(here)) {
    if (here.gpu_model === fastest.gpu_model)
      return `${start}, its fastest: it is ${factor(here, slowest)} as fast there as on ${slowest.gpu_model}.`;
    const behind = ` On ${fastest.gpu_model} it would be ${factor(fastest, here)} as fast.`;
    return times(here, slowest) < SAME_SPEED
      ? `${start}, its slowest.${behind}`
      : `${start}: it is ${factor(here, slowest)} as fast there as on ${slowest.gpu_model}.${behind}`;
  }
  const unknown = here ? ", where its throughput is not known yet" : "";
  return `${start}${unknown}. It is fastest on ${fastest.gpu_model}: ${factor(fastest, slowest)} as fast as on ${slowest.gpu_model}.`;
}

/** What the policy means to give it of each model, and what it got. */
export function targetSentence(throughputs: JobThroughputs): string {
  const targets = throughputs.models.filter(({ target_share: share }) => share !== null);
  if (targets.length === 0) return `Policy ${throughputs.policy_plugin.name} sets no targets by GPU model.`;
  const meant = listed(targets, ({ target_share: share }) => share);
  const got = listed(throughputs.models, ({ received_share: share }) => share);
  const goal = meant ? `Its target is ${meant}` : "Its target is 0 for now: it uses the GPUs that other jobs leave";
  return `${goal}. Since the last targets it had ${got || "none"}.`;
}

function listed(models: readonly JobModelThroughput[], shareOf: (model: JobModelThroughput) => number | null): string {
  const parts = models
    .map((model) => [shareOf(model) ?? 0, model.gpu_model] as const)
    .filter(([share]) => share >= 0.005)
    .sort(([a], [b]) => b - a)
    .map(([share, model], place) => `${percent(share)}${place === 0 ? " of the time" : ""} on ${model}`);
  return parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts.at(-1)}` : (parts[0] ?? "");
}

function extreme(
  models: readonly JobModelThroughput[],
  wins: (a: number, b: number) => boolean,
): JobModelThroughput | undefined {
  return models.reduce<JobModelThroughput | undefined>(
    (best, each) => (best && !wins(each.throughput ?? 0, best.throughput ?? 0) ? best : each),
    undefined,
  );
}

function times(faster: JobModelThroughput, slower: JobModelThroughput): number {
  return (faster.throughput ?? 0) / (slower.throughput ?? 1);
}

function factor(faster: JobModelThroughput, slower: JobModelThroughput): string {
  return `${count(Number(times(faster, slower).toPrecision(2)))} times`;
}
