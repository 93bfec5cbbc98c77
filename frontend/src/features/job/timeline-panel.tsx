import { useState } from "react";

import type { Attempt, Job } from "@/api/schema";
import { clockTime, duration, failureClass, moment, secondsBetween, visible, words } from "@/components/format";
import { indexesText } from "@/components/gpu-amount";
import { JobLinks } from "@/components/job-links";
import { useNow } from "@/components/now";
import { attemptLook, Badge } from "@/components/state-badge";
import styles from "@/features/job/timeline-panel.module.css";
import { Button } from "@/ui/button";
import { Key } from "@/ui/key";
import { Panel } from "@/ui/layout";

/** Under a policy that takes turns a job has many. */
const ATTEMPTS_SHOWN = 5;

const KIND_TEXT: Record<StretchKind, string> = {
  waiting: "Waiting",
  planned: "Planned: its GPUs are being freed",
  starting: "Starting",
  running: "Running",
  stopping: "Stopping",
};

/** When the job waited and ran, and what ended each attempt: who, and why. */
export function TimelinePanel({ job, attempts }: { job: Job; attempts: readonly Attempt[] }) {
  const now = useNow();
  const [all, setAll] = useState(false);
  const newestFirst = [...attempts].sort((a, b) => b.number - a.number);
  const shown = all ? newestFirst : newestFirst.slice(0, ATTEMPTS_SHOWN);
  const stretches = stretchesOf(job, attempts, now);
  const drawn = (Object.keys(KIND_TEXT) as StretchKind[]).filter((kind) => stretches.some((one) => one.kind === kind));
  const start = Date.parse(job.submitted_at);
  const span = Math.max(1000, (stretches.at(-1)?.to ?? now) - start);
  return (
    <Panel title="Timeline">
      <div className={styles.bar} role="img" aria-label={sentence(job, attempts)}>
        {stretches.map(({ kind, from, to, attempt }) => (
          <span
            key={`${kind} ${from}`}
            className={styles[kind]}
            style={{ left: `${(100 * (from - start)) / span}%`, width: `${(100 * (to - from)) / span}%` }}
            title={`${KIND_TEXT[kind]}${attempt ? ` (attempt ${attempt.number})` : ""}: ${duration((to - from) / 1000)}`}
          />
        ))}
      </div>
      <div className={styles.scale}>
        <span>{moment(job.submitted_at)}</span>
        <span>{job.ended_at ? clockTime(job.ended_at) : "now"}</span>
      </div>
      <Key className={styles.key} aria-hidden>
        {drawn.map((kind) => (
          <li key={kind}>
            <span className={styles[kind]} /> {words(kind)}
          </li>
        ))}
      </Key>
      {shown.length > 0 && (
        <ol className={styles.attempts}>
          {shown.map((attempt) => (
            <AttemptEntry key={attempt.id} attempt={attempt} now={now} />
          ))}
        </ol>
      )}
      {shown.length < attempts.length && (
        <Button look="quiet" onClick={() => setAll(true)}>
          Show all {attempts.length} attempts
        </Button>
      )}
    </Panel>
  );
}

function AttemptEntry({ attempt, now }: { attempt: Attempt; now: number }) {
  const ran = secondsBetween(attempt.running_at, attempt.ended_at, now);
  const where = attempt.placement
    .map((part) => (part.gpus.length > 0 ? `${part.node} (${indexesText(part.gpus)})` : part.node))
    .join(", ");
  return (
    <li>
      <span className={styles.number}>{attempt.number}</span>
      <div>
        <div className={styles.head}>
          <Badge look={attemptLook(attempt)} />
          {attempt.is_trial && (
            <span title="A trial on a few GPUs checks that the job works before it gets all of them">trial run</span>
          )}
          <span>
            {attempt.gpu_model && `${attempt.gpu_model} `}on {where}
          </span>
          {ran !== null && <span>{attempt.state === "ended" ? `ran ${duration(ran)}` : `for ${duration(ran)}`}</span>}
          {attempt.exit_code !== null && <span>{attempt.signal || `exit code ${attempt.exit_code}`}</span>}
          {attempt.outcome === "failed" && (attempt.failure || attempt.category) && (
            <span>{failureClass(attempt.failure || attempt.category)}</span>
          )}
        </div>
        {attempt.message && <p>{visible(attempt.message)}</p>}
        {attempt.matched_rule?.advice && <p>What to do: {attempt.matched_rule.advice}</p>}
        {attempt.preempted_by.length > 0 && (
          <p className={styles.by}>
            Its GPUs were given to <JobLinks ids={attempt.preempted_by} />
          </p>
        )}
        {attempt.lost_seconds !== null && attempt.lost_seconds > 0 && (
          <p className={styles.by}>Work lost: {duration(attempt.lost_seconds)}</p>
        )}
      </div>
    </li>
  );
}

function sentence(job: Job, attempts: readonly Attempt[]): string {
  const told = attempts.map((attempt) => `attempt ${attempt.number} ${attemptLook(attempt).text.toLowerCase()}`);
  return `Submitted ${moment(job.submitted_at)}. ${told.join(", ")}`;
}

type StretchKind = "waiting" | "planned" | "starting" | "running" | "stopping";

interface Stretch {
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
    begun.forEach(({ kind, from: since }, index) => {
      // Until the attempt before has left its GPUs, its own stretches are shown.
      const from = Math.max(since, at);
      const to = begun[index + 1]?.from ?? attemptEnd;
      if (to > from) stretches.push({ kind, from, to, attempt });
    });
    at = Math.max(at, attemptEnd);
  }
  if (end > at) stretches.push({ kind: "waiting", from: at, to: end, attempt: null });
  return stretches;
}
