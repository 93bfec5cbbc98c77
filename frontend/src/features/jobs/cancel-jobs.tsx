import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { answerOf, api } from "@/api/client";
import type { JobFilters } from "@/api/queries";
import type { Job } from "@/api/schema";
import { counted } from "@/components/format";
import styles from "@/features/jobs/jobs-page.module.css";
import { live } from "@/live/live";
import { Button } from "@/ui/button";
import { Confirm } from "@/ui/dialog";
import { useSay } from "@/ui/toasts";

/** Cancels all jobs under the page's filters, on all its pages, after telling how many these are. */
export function CancelMatching({ filters }: { filters: JobFilters }) {
  const say = useSay();
  const queries = useQueryClient();
  const filter = filterOf(filters);
  const count = useMutation({
    mutationFn: () => answerOf(api.POST("/jobs/actions", { body: { action: "cancel", filter, dry_run: true } })),
    onSuccess: ({ jobs }) => {
      if (jobs === 0) say("done", "No job that has not ended matches.");
    },
    onError: (error) => say("failed", error.message),
  });
  const jobs = count.data?.jobs ?? 0;
  const cancel = useMutation({
    mutationFn: () => cancelAll(filter, jobs),
    onSuccess: (done) => say("done", `Cancelling ${counted(done, "job")}.`),
    onError: (error) => say("failed", error.message),
    onSettled: () => {
      count.reset();
      return queries.invalidateQueries({ queryKey: ["jobs"] });
    },
  });
  return (
    <>
      <Button look="quiet" busy={count.isPending} onClick={() => count.mutate()}>
        Cancel all that match
      </Button>
      <Confirm
        open={jobs > 0}
        onClose={() => count.reset()}
        title={`Cancel ${counted(jobs, "job")}?`}
        description={`${(count.data?.queued ?? 0).toLocaleString("en-US")} wait, ${(count.data?.running ?? 0).toLocaleString("en-US")} run. Running attempts are asked to write a checkpoint and then stopped. A cancelled job does not run again.`}
        action={`Cancel ${counted(jobs, "job")}`}
        busy={cancel.isPending}
        onConfirm={() => cancel.mutate()}
      />
    </>
  );
}

/** Of running jobs one request cancels only so many. No more are cancelled than were counted. */
async function cancelAll(filter: Record<string, string>, counted: number): Promise<number> {
  let done = 0;
  for (;;) {
    const answer = await answerOf(api.POST("/jobs/actions", { body: { action: "cancel", filter, most: counted - done } }));
    done += answer.jobs;
    if (answer.remaining === 0 || answer.jobs === 0) return done;
  }
}

function filterOf(filters: JobFilters): Record<string, string> {
  const filter: Record<string, string> = {};
  for (const [name, value] of Object.entries(filters) as [string, string | readonly string[] | undefined][]) {
    const text = typeof value === "object" ? value.join(",") : value;
    if (text) filter[name] = text;
  }
  return filter;
}

/** Cancels what is selected after asking, and tells how many it could not. */
export function CancelSelected({ jobs, onDone }: { jobs: readonly Job[]; onDone: () => void }) {
  const [asking, setAsking] = useState(false);
  const say = useSay();
  const open = jobs.filter((job) => job.ended_at === null);
  const cancel = useMutation({
    mutationFn: () =>
      Promise.allSettled(
        open.map((job) => answerOf(api.POST("/jobs/{job_id}/cancel", { params: { path: { job_id: job.id } } }))),
      ),
    onSuccess: (answers) => {
      const cancelled = answers.flatMap((answer) => (answer.status === "fulfilled" ? [answer.value] : []));
      live.apply({ type: "fetched", kind: "job", objects: cancelled, since: live.current().clock });
      const refused = answers.length - cancelled.length;
      if (cancelled.length > 0) say("done", `Cancelling ${counted(cancelled.length, "job")}.`);
      if (refused > 0) say("failed", `${counted(refused, "job")} could not be cancelled.`);
      setAsking(false);
      onDone();
    },
  });
  return (
    <div className={styles.selection}>
      <span>{counted(jobs.length, "job")} selected</span>
      <Button look="danger" disabled={open.length === 0} onClick={() => setAsking(true)}>
        Cancel {counted(open.length, "job")}
      </Button>
      <Button look="quiet" onClick={onDone}>
        Clear selection
      </Button>
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title={`Cancel ${counted(open.length, "job")}?`}
        description="Running attempts are asked to write a checkpoint and then stopped. A cancelled job does not run again."
        action={`Cancel ${counted(open.length, "job")}`}
        busy={cancel.isPending}
        onConfirm={() => cancel.mutate()}
      >
        <ul className={styles.list}>
          {open.slice(0, 8).map((job) => (
            <li key={job.id}>
              {job.name} <span className={styles.id}>#{job.id}</span>
            </li>
          ))}
          {open.length > 8 && <li>and {open.length - 8} more</li>}
        </ul>
      </Confirm>
    </div>
  );
}
