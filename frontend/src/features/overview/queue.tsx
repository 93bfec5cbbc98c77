import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { wholeJobsQuery } from "@/api/map-queries";
import { duration, inLocalTime, secondsBetween } from "@/components/format";
import { gpusText } from "@/components/gpu-amount";
import { useNow } from "@/components/now";
import { useLiveState } from "@/live/live";
import { jobsOf } from "@/live/map-rows";
import { type SeenJob, withWhy } from "@/live/store";
import { EmptyState, SkeletonLines } from "@/ui/feedback";
import { Panel } from "@/ui/layout";
import type { ActiveCounts } from "@/features/overview/tiles";
import styles from "@/features/overview/overview-page.module.css";

const MOST_SHOWN = 20;

/** Who waits, in the order in which rounds consider them, each with the most decisive reason. */
export function Queue({ loading }: { loading: boolean }) {
  const { job, mapJob, why } = useLiveState();
  const waiting = useMemo(
    () =>
      jobsOf({ job, mapJob })
        .filter((one) => one.state === "queued" && isOwnRow(one))
        .map((one) => withWhy(why, one))
        .sort(inLine),
    [job, mapJob, why],
  );
  useWhole(waiting);
  return (
    <Panel title={waiting.length > 0 ? `Queue · ${waiting.length}` : "Queue"} flush className={styles.beside}>
      {loading && waiting.length === 0 ? (
        <SkeletonLines count={6} />
      ) : waiting.length === 0 ? (
        <EmptyState title="No job waits">Every submitted job has its GPUs.</EmptyState>
      ) : (
        <>
          <ol className={styles.queue}>
            {waiting.slice(0, MOST_SHOWN).map((job) => (
              <Waiting key={job.id} job={job} />
            ))}
          </ol>
          {waiting.length > MOST_SHOWN && (
            <p className={styles.more}>
              <Link to="/jobs" search={{ state: "queued" }}>
                All {waiting.length} queued jobs
              </Link>
            </p>
          )}
        </>
      )}
    </Panel>
  );
}

/** Ask for the head of the queue whole, and for as many behind it, so that those who move up are there already. */
function useWhole(waiting: readonly SeenJob[]) {
  const [asked, setAsked] = useState<number[]>([]);
  if (waiting.slice(0, MOST_SHOWN).some(({ id }) => !asked.includes(id)))
    setAsked(waiting.slice(0, 2 * MOST_SHOWN).map(({ id }) => id));
  useQuery(wholeJobsQuery(asked));
}

/** The jobs of a person: an input worker belongs to the job that it serves. */
export function isOwnRow({ serves }: SeenJob): boolean {
  return (serves ?? null) === null;
}

/** How many run and wait, counted where the queue and the map have their jobs, so that they agree at any time. */
export function activeCounts(jobs: Iterable<SeenJob>): ActiveCounts {
  const counts = { queued: 0, running: 0 };
  for (const job of jobs) {
    if (isOwnRow(job) && (job.state === "queued" || job.state === "running")) counts[job.state] += 1;
  }
  return counts;
}

function Waiting({ job }: { job: SeenJob }) {
  const now = useNow();
  return (
    <li>
      <div className={styles.queueHead}>
        <span className={styles.position} title={`Position in virtual cluster ${job.virtual_cluster}`}>
          {job.position ?? "–"}
        </span>
        <Link to="/jobs/$id" params={{ id: String(job.id) }}>
          {job.name}
        </Link>
        <span className={styles.queueMeta}>{duration(secondsBetween(job.submitted_at, null, now) ?? 0)}</span>
      </div>
      <p className={styles.reason}>
        <span className={styles.queueMeta}>
          {job.virtual_cluster} · {job.tenant} · {gpusText(job.gpus, job.spec?.tasks ?? [])}
        </span>
        <br />
        {job.reasons && inLocalTime(job.reasons[0]?.message ?? "The next round will decide.", now)}
      </p>
    </li>
  );
}

/** Positions count within a virtual cluster; across them, the longest wait comes first. */
function inLine(a: SeenJob, b: SeenJob): number {
  return (a.position ?? Infinity) - (b.position ?? Infinity) || Date.parse(a.submitted_at) - Date.parse(b.submitted_at);
}
