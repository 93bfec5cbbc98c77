/** Which output is shown: `rank 3`, `task worker` or `all`. Pure. */

import type { Attempt, Job } from "@/api/schema";

const RANK = "rank ";
const TASK = "task ";

/** What there is to choose; of an elastic job as many ranks as this attempt was granted. */
export function outputOptions(job: Job, attempt: Attempt): { value: string; label: string }[] {
  const tasks = job.spec.tasks.flatMap((task) => Array.from({ length: task.replicas ?? 1 }, () => task.name));
  const placed = attempt.placement.flatMap((part) => part.ranks).length;
  const ranks = tasks.slice(0, placed || tasks.length);
  const names = [...new Set(ranks)];
  const options = ranks.map((task, rank) => ({
    value: `${RANK}${rank}`,
    label: names.length > 1 ? `Rank ${rank}, ${task}` : `Rank ${rank}`,
  }));
  if (options.length < 2) return options;
  const wholeTasks = names.length > 1 ? names.map((name) => ({ value: `${TASK}${name}`, label: `Task ${name}` })) : [];
  return [...options, ...wholeTasks, { value: "all", label: "All ranks" }];
}

export function rankOf(which: string): number | null {
  return which.startsWith(RANK) ? Number(which.slice(RANK.length)) : null;
}

export function taskOf(which: string): string | undefined {
  return which.startsWith(TASK) ? which.slice(TASK.length) : undefined;
}

export function downloadAddress(job: number, attempt: number, which: string): string {
  const query = new URLSearchParams({ attempt: String(attempt) });
  const rank = rankOf(which);
  const task = taskOf(which);
  if (rank !== null) query.set("rank", String(rank));
  if (task) query.set("task", task);
  return `/api/v1/jobs/${job}/logs/download?${query.toString()}`;
}
