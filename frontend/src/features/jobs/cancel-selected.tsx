import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { answerOf, api } from "@/api/client";
import type { Job } from "@/api/schema";
import { counted } from "@/components/format";
import { live } from "@/live/live";
import { Button } from "@/ui/button";
import { Confirm } from "@/ui/dialog";
import { useSay } from "@/ui/toasts";
import styles from "@/features/jobs/jobs-page.module.css";

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
