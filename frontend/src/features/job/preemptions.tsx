import { useQuery } from "@tanstack/react-query";

import { answerOf, api } from "@/api/client";
import type { Job } from "@/api/schema";
import { counted, duration, moment } from "@/components/format";
import { useNow } from "@/components/now";
import type { Turn } from "@/features/job/turns";
import { turnAt } from "@/features/job/turns";

/** How often a job was preempted, and what that cost it. */
export function Preemptions({ job }: { job: Job }) {
  const { data } = useQuery({
    queryKey: ["job-preemptions", job.id, job.preemptions, job.attempt?.running_at],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/jobs/{job_id}/preemptions", { params: { path: { job_id: job.id } }, signal })),
    enabled: job.preemptions > 0,
  });
  if (!data) return <>{job.preemptions}</>;
  return (
    <>
      {counted(data.times, "time")}; {duration(data.lost_seconds)} of work done again, {duration(data.overhead_seconds)}{" "}
      to stop and start
      {data.may_borrow_at && `; borrows GPUs again from ${moment(data.may_borrow_at)}`}
    </>
  );
}

/** Whether it is the turn of an attempt that shares its GPUs in turns, and when that changes. */
export function TurnLine({ turn }: { turn: Turn }) {
  const { isOn, leftSeconds } = turnAt(turn, useNow() / 1000);
  const left = duration(Math.ceil(leftSeconds));
  return isOn ? <>its turn, for another {left}</> : <>frozen, its next turn in {left}</>;
}
