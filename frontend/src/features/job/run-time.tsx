import { useQuery } from "@tanstack/react-query";

import { answerOf, api } from "@/api/client";
import type { Job } from "@/api/schema";
import { runTimeText } from "@/features/job/run-time-text";

const REFETCH_MS = 60_000;

/** How long the job runs in all by its own steps, beside what was declared. */
export function RunTime({ job }: { job: Job }) {
  const { data } = useQuery({
    queryKey: ["job-run-time", job.id, job.version],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/jobs/{job_id}/run-time", { params: { path: { job_id: job.id } }, signal })),
    refetchInterval: job.state === "running" ? REFETCH_MS : false,
  });
  return <>{data ? runTimeText(data) : ""}</>;
}
