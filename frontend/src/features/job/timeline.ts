/** A job's life as stretches of time: waiting, then each attempt's phases. Pure. */

import type { Attempt, Job } from "@/api/schema";

export type StretchKind = "waiting" | "planned" | "starting" | "running" | "stopping";

export interface Stretch {
  kind: StretchKind;
  /** Milliseconds since 1970. */
  from: number;
  to: number;
  attempt: Attempt | null;
}

/** From submission to the end, or to now while the job lives. */
export function stretchesOf(
  job: Pick<Job, "submitted_at" | "ended_at">,
  attempts: readonly Attempt[],
  now: number,
): Stretch[] {
  const end = job.ended_at ? Date.parse(job.ended_at) : now;
  const stretches: Stretch[] = [];
  let at = Date.parse(job.submitted_at);
  for (const attempt of [...attempts].sort((a, b) => a.number - b.number)) {
    const steps: [StretchKind, string | null][] = [
      ["planned", attempt.planned_at],
      ["starting", attempt.starting_at],
      ["running", attempt.running_at],
      ["stopping", attempt.stopping_at],
    ];
    const attemptEnd = attempt.ended_at ? Date.parse(attempt.ended_at) : end;
    const begun = steps.flatMap(([kind, since]) => (since ? [{ kind, from: Date.parse(since) }] : []));
    const planned = Date.parse(attempt.planned_at);
    if (planned > at) stretches.push({ kind: "waiting", from: at, to: planned, attempt: null });
    begun.forEach(({ kind, from }, index) => {
      const to = begun[index + 1]?.from ?? attemptEnd;
      if (to > from) stretches.push({ kind, from, to, attempt });
    });
    at = Math.max(at, attemptEnd);
  }
  if (end > at) stretches.push({ kind: "waiting", from: at, to: end, attempt: null });
  return stretches;
}
