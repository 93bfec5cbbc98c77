import { CalendarClock } from "lucide-react";

import type { Job } from "@/api/schema";
import { clockAhead, duration, moment } from "@/components/format";
import { useNow } from "@/components/now";
import { useLiveState } from "@/live/live";
import type { PredictionData } from "@/live/messages";
import { newestPrediction } from "@/live/store";
import styles from "@/features/job/waiting-panel.module.css";

/** When the job will probably start, between what, and what that rests on. */
export function PredictionLine({ job, fetched }: { job: Job; fetched: PredictionData | undefined }) {
  const now = useNow();
  const told = newestPrediction(useLiveState().prediction, job.id, fetched);
  if (!told) return null;
  const { prediction } = told;
  if (!prediction) {
    return told.no_prediction ? (
      <p className={styles.prediction}>
        <CalendarClock size={16} aria-hidden />
        <span>No start is foreseen. {told.no_prediction}</span>
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
