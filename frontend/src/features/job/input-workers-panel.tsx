import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Fragment } from "react";

import { inputWorkersQuery } from "@/api/queries";
import type { InputWorker, Job, JobInputWorkers } from "@/api/schema";
import { count } from "@/components/format";
import { ErrorNotice, Notice } from "@/ui/feedback";
import { Facts, Panel } from "@/ui/layout";

const LOOK_AGAIN_MS = 5_000;

/** The input workers that the platform runs for a job, and how much its trainer waits for them. */
export function InputWorkersPanel({ job }: { job: Job }) {
  const query = useQuery({
    ...inputWorkersQuery(job.id),
    enabled: Boolean(job.spec.input_workers),
    refetchInterval: job.ended_at ? false : LOOK_AGAIN_MS,
  });
  if (query.isError) {
    return (
      <Panel title="Input workers">
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      </Panel>
    );
  }
  if (!query.data) return null;
  const { problem } = query.data;
  return (
    <Panel title="Input workers">
      {problem && <Notice>{problem}</Notice>}
      <Facts facts={factsOf(query.data, job)} />
    </Panel>
  );
}

function factsOf(told: JobInputWorkers, job: Job) {
  const { min, max } = job.spec.input_workers ?? {};
  return [
    ["Running", `${told.running} of ${told.desired} desired (${min} to ${max})`],
    ...(told.connected === null ? [] : [["Connected", String(told.connected)] as const]),
    ...(told.stall === null ? [] : [["Its trainer waits", `${Math.round(told.stall * 100)} % of the time`] as const]),
    ...(told.skipped === null ? [] : [["Batches skipped of the shared stream", count(told.skipped)] as const]),
    ...(told.workers.length > 0 ? [["Their jobs", <Workers key="jobs" workers={told.workers} />] as const] : []),
  ] as const;
}

function Workers({ workers }: { workers: readonly InputWorker[] }) {
  return workers.map((worker, index) => (
    <Fragment key={worker.job}>
      {index > 0 && ", "}
      <Link to="/jobs/$id" params={{ id: String(worker.job) }}>
        {worker.job}
      </Link>{" "}
      {worker.node ? `on ${worker.node}` : "waits"}
    </Fragment>
  ));
}
