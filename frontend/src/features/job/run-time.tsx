import { useQuery } from "@tanstack/react-query";

import { request } from "@/api/client";
import type { Job, JobRunTime } from "@/api/types";
import { runTimeText } from "@/features/job/run-time-text";

const REFETCH_MS = 60_000;

/** How long the job runs in all by its own steps, beside what was declared. */
export function RunTime({ job }: { job: Job }) {
  const { data } = useQuery({
    queryKey: ["job-run-time", job.id, job.version],
    queryFn: ({ signal }) => request<JobRunTime>("GET", `/jobs/${job.id}/run-time`, { signal }),
    refetchInterval: job.state === "running" ? REFETCH_MS : false,
  });
  return <>{data ? runTimeText(data) : ""}</>;
}
