/** Events as rows of a table. Pure. */

import type { Event as ClusterEvent } from "@/api/schema";

/** What happened to a job, or to something else; with the step of its attempt that brought it about. */
export interface EventRow {
  event: ClusterEvent;
  attempt: ClusterEvent | null;
}

/** The newest first, however the pages came; a job and its attempt that change at the same instant are one row. */
export function eventRows(events: readonly ClusterEvent[]): EventRow[] {
  const sorted = [...events].sort((a, b) => Date.parse(b.at) - Date.parse(a.at) || b.id - a.id);
  const jobs = new Map(sorted.filter(isOfJob).map((event) => [keyOf(event), event]));
  const attempts = new Map(
    sorted
      .filter((event) => event.subject === "attempt" && jobs.has(keyOf(event)))
      .map((event) => [keyOf(event), event]),
  );
  return sorted.flatMap((event) => {
    if (attempts.get(keyOf(event)) === event) return [];
    return [{ event, attempt: jobs.get(keyOf(event)) === event ? (attempts.get(keyOf(event)) ?? null) : null }];
  });
}

/** What brought an event about: the server calls the release of GPUs that a job waited for "release". */
export function actorText(actor: string): string {
  return actor === "release" ? "GPUs released" : actor;
}

function isOfJob({ subject, from, to }: ClusterEvent): boolean {
  return subject === "job" && from !== "" && to !== "";
}

function keyOf({ job, at }: ClusterEvent): string {
  return `${job} ${at}`;
}
