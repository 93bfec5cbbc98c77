import { useQuery } from "@tanstack/react-query";
import { CalendarClock, Lightbulb } from "lucide-react";

import { whyQuery } from "@/api/queries";
import type { Job, Reason } from "@/api/schema";
import { clockAhead, duration, inLocalTime, moment, secondsBetween } from "@/components/format";
import { useNow } from "@/components/now";
import { PartBar } from "@/components/use-bar";
import styles from "@/components/job/waiting-panel.module.css";
import { useLiveState } from "@/live/live";
import type { PredictionData } from "@/live/messages";
import { newestPrediction } from "@/live/store";
import { Panel, Stack } from "@/ui/layout";

/** Why the job is not running, where it stands, and what would help. */
export function WaitingPanel({ job }: { job: Job }) {
  const now = useNow();
  const why = useQuery(whyQuery(job.id));
  const waited = secondsBetween(job.attempt?.ended_at ?? job.submitted_at, null, now);
  return (
    <Panel title="Why it waits" actions={<span>{waited !== null && `for ${duration(waited)}`}</span>}>
      <Stack>
        {job.position !== null && (
          <p>
            Number <strong>{job.position}</strong>
            {why.data?.queue_length != null && ` of ${Math.max(why.data.queue_length, job.position)}`} in the queue of{" "}
            {job.guarantee === "guaranteed" ? `virtual cluster ${job.virtual_cluster}` : "opportunistic jobs"}.
          </p>
        )}
        <PredictionLine job={job} fetched={why.data} />
        {job.reasons.length > 0 ? <ReasonList reasons={job.reasons} /> : <p>The next round will give the reason.</p>}
      </Stack>
    </Panel>
  );
}

/** When the job will probably start, between what, and what that rests on. */
function PredictionLine({ job, fetched }: { job: Job; fetched: PredictionData | undefined }) {
  const now = useNow();
  const told = newestPrediction(useLiveState().prediction, job.id, fetched);
  if (!told) return null;
  const { prediction } = told;
  if (!prediction) {
    return told.no_prediction ? (
      <p className={styles.prediction}>
        <CalendarClock size={16} aria-hidden />
        <span>No start is predicted. {told.no_prediction}</span>
      </p>
    ) : null;
  }
  const ahead = (Date.parse(prediction.starts_at) - now) / 1000;
  const [first, last] = [prediction.earliest, prediction.latest].map((at) => (at ? clockAhead(at, now) : null));
  return (
    <div className={styles.prediction}>
      <CalendarClock size={16} aria-hidden />
      <div>
        <p>
          Expected to start{" "}
          <strong title={moment(prediction.starts_at)}>
            {ahead > 5 ? `at ${clockAhead(prediction.starts_at, now)}, in ${roughly(ahead)}` : "any moment"}
          </strong>
          {last === null
            ? ` (not before ${first ?? "now"}, perhaps in more than 30 days)`
            : first !== last && ` (between ${first ?? "now"} and ${last})`}
        </p>
        <p className={styles.assumption}>{prediction.assumption}</p>
      </div>
    </div>
  );
}

/** To the minute from two minutes on: what is foreseen is not known to the second. */
function roughly(seconds: number): string {
  return duration(seconds < 120 ? seconds : Math.round(seconds / 60) * 60);
}

/** Why a job waits, the most decisive reason first, each with what would help. */
function ReasonList({ reasons }: { reasons: readonly Reason[] }) {
  const now = useNow();
  return (
    <ol className={styles.reasons}>
      {reasons.map((reason) => (
        <li key={`${reason.code} ${reason.message}`}>
          <p>{inLocalTime(reason.message, now)}</p>
          {reason.hint && (
            <p className={styles.hint}>
              <Lightbulb size={14} aria-hidden />
              {inLocalTime(reason.hint, now)}
            </p>
          )}
          {reason.needed !== null && reason.available !== null && (
            <Shortfall needed={reason.needed} available={reason.available} />
          )}
        </li>
      ))}
    </ol>
  );
}

function Shortfall({ needed, available }: { needed: number; available: number }) {
  return (
    <p className={styles.shortfall}>
      <PartBar part={needed > 0 ? available / needed : 0} />
      {available} of {needed} GPUs available
    </p>
  );
}
