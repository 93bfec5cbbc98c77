import { useMutation } from "@tanstack/react-query";

import { answerOf, api } from "@/api/client";
import { editionQuery } from "@/api/edition";
import type { Job } from "@/api/schema";
import { useEdition } from "@/components/edition";
import { useSentForm } from "@/components/sent-form";
import { live } from "@/live/live";
import { FormDialog } from "@/ui/dialog";
import { TextField } from "@/ui/field";
import { FieldRow } from "@/ui/form";
import { useSay } from "@/ui/toasts";

interface Draft {
  name: string;
  priority: number | undefined;
  /** As it is typed: seconds, or text such as 2h. */
  time_limit: string;
}

const jobEdition = (id: number) =>
  editionQuery(["jobs", id], () => api.GET("/jobs/{job_id}", { params: { path: { job_id: id } } }));

/** Another name, priority or time limit for a job that was submitted; the `allot` command can change more. */
export function ChangeDialog({ job: shown, onClose }: { job: Job; onClose: () => void }) {
  const say = useSay();
  const editing = useEdition(jobEdition(shown.id), shown);
  const job = editing.thing;
  const before = job.spec.time_limit;
  const limit = before == null ? "" : `${String(before)}s`;
  const change = useMutation({
    mutationFn: ({ name, priority, time_limit }: Draft) =>
      answerOf(
        api.PATCH("/jobs/{job_id}", {
          params: { path: { job_id: job.id }, header: editing.edition },
          body: {
            name,
            priority: priority ?? 0,
            // What nobody touched is not sent: it may be one that only an operator could set now.
            ...(time_limit === limit ? {} : { time_limit: time_limit || null }),
          },
        }),
      ),
    onSuccess: (answer) => {
      live.apply({ type: "fetched", kind: "job", objects: [answer], since: live.current().clock });
      say("done", `Changed ${answer.name}.`);
      onClose();
    },
  });
  const { sending, field, number } = useSentForm<Draft>(
    { name: job.name, priority: job.priority, time_limit: limit },
    change,
    { editing },
  );
  return (
    <FormDialog title={`Change ${job.name}`} sending={sending} action="Change" onClose={onClose}>
      <TextField {...field("name")} label="Name" required />
      <FieldRow>
        <TextField {...number("priority")} label="Priority" hint="Higher goes first" min={-100} max={100} step={1} />
        <TextField
          {...field("time_limit")}
          label="Time limit"
          hint={
            job.state === "queued" ? "Such as 2h; empty: none" : "Such as 2h; only a shorter limit while the job runs"
          }
        />
      </FieldRow>
    </FormDialog>
  );
}
