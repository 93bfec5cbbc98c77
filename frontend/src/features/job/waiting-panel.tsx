import { useQuery } from "@tanstack/react-query";

import { whyQuery } from "@/api/queries";
import type { Job } from "@/api/schema";
import { duration, secondsBetween } from "@/components/format";
import { useNow } from "@/components/now";
import { ReasonList } from "@/components/reasons";
import { PredictionLine } from "@/features/job/prediction-line";
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
        {job.reasons.length > 0 ? <ReasonList reasons={job.reasons} /> : <p>The next round will look at it and say.</p>}
      </Stack>
    </Panel>
  );
}
