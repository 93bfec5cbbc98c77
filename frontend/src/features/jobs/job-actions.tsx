/** What is done to many jobs at once: those that were selected, or all under the page's filters. */

import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { answerOf, api } from "@/api/client";
import type { JobFilters } from "@/api/queries";
import type { JobsActionAnswer, JobsActionRequest } from "@/api/schema";
import { counted } from "@/components/format";
import styles from "@/features/jobs/jobs-page.module.css";
import { Button } from "@/ui/button";
import { FormDialog } from "@/ui/dialog";
import { Field, NumberInput, SelectField, TextField } from "@/ui/field";
import { useSay } from "@/ui/toasts";

/** At least one filter: without any the server refuses. */
export type ActionFilter = Record<string, string>;

export function actionFilter(filters: JobFilters): ActionFilter {
  const filter: ActionFilter = {};
  for (const [name, value] of Object.entries(filters) as [string, string | readonly string[] | undefined][]) {
    const text = typeof value === "object" ? value.join(",") : value;
    if (text) filter[name] = text;
  }
  return filter;
}

interface Choice {
  label: string;
  /** What the button says, before the number of jobs. */
  verb: string;
  note: string;
}

const CHOICES = {
  cancel: {
    label: "Cancel",
    verb: "Cancel",
    note: "Running jobs may write a checkpoint before they are stopped. A cancelled job does not run again.",
  },
  hold: { label: "Hold", verb: "Hold", note: "Waiting jobs do not start until they are released." },
  release: { label: "Release", verb: "Release", note: "Jobs on hold may start again." },
  requeue: {
    label: "Requeue",
    verb: "Requeue",
    note: "Running jobs write a checkpoint, give their GPUs back, and wait again.",
  },
  priority: { label: "Set priority", verb: "Change", note: "Jobs of a higher priority start first." },
  label: { label: "Set label", verb: "Change", note: "Other labels stay as they are." },
  unlabel: { label: "Remove label", verb: "Change", note: "Other labels stay as they are." },
} as const satisfies Record<string, Choice>;

type ChoiceName = keyof typeof CHOICES;

interface Values {
  choice: ChoiceName;
  priority: number | undefined;
  key: string;
  value: string;
}

/** The request's action and values; undefined while a value is missing. */
function actionOf({ choice, priority, key, value }: Values): Partial<JobsActionRequest> | undefined {
  switch (choice) {
    case "priority":
      return priority === undefined ? undefined : { action: "update", priority };
    case "label":
      return key && value ? { action: "update", labels: { [key]: value } } : undefined;
    case "unlabel":
      return key ? { action: "update", labels: { [key]: null } } : undefined;
    default:
      return { action: choice };
  }
}

interface ActOnJobsProps {
  filter: ActionFilter;
  /** What the button that opens the dialog says. */
  children: string;
  onDone?: () => void;
}

export function ActOnJobs({ filter, children, onDone }: ActOnJobsProps) {
  const [isOpen, setOpen] = useState(false);
  return (
    <>
      <Button look="quiet" onClick={() => setOpen(true)}>
        {children}
      </Button>
      {isOpen && <ActionDialog filter={filter} onClose={() => setOpen(false)} onDone={onDone} />}
    </>
  );
}

interface ActionDialogProps {
  filter: ActionFilter;
  onClose: () => void;
  onDone: (() => void) | undefined;
}

function ActionDialog({ filter, onClose, onDone }: ActionDialogProps) {
  const say = useSay();
  const queries = useQueryClient();
  const [values, setValues] = useState<Values>({ choice: "cancel", priority: undefined, key: "", value: "" });
  const change = (changed: Partial<Values>) => setValues((now) => ({ ...now, ...changed }));
  const action = actionOf(values);
  const { verb, note } = CHOICES[values.choice];
  const found = useQuery({
    queryKey: ["job-actions", filter, action],
    queryFn: () => answerOf(api.POST("/jobs/actions", { body: bodyOf(filter, action, { dry_run: true }) })),
    enabled: action !== undefined,
    retry: false,
  });
  const jobs = action && found.data ? found.data.jobs : 0;
  const act = useMutation({
    mutationFn: () => actOnAll(bodyOf(filter, action, {}), jobs),
    onSuccess: ({ done, refused }) => {
      if (done > 0) say("done", `${verb}: ${counted(done, "job")}.`);
      if (refused > 0) say("failed", `${counted(refused, "job")} could not be changed.`);
      onDone?.();
      onClose();
    },
    onSettled: () => queries.invalidateQueries({ queryKey: ["jobs"] }),
  });
  return (
    <FormDialog
      title="Change many jobs"
      description={note}
      onClose={onClose}
      close="Leave them"
      sending={{ onSubmit: () => act.mutate(), busy: act.isPending, notice: act.error ?? found.error }}
      action={`${verb} ${counted(jobs, "job")}`}
      look={values.choice === "cancel" ? "danger" : "primary"}
      disabled={jobs === 0}
    >
      <SelectField
        label="Action"
        value={values.choice}
        onChange={(event) => change({ choice: event.target.value as ChoiceName })}
        options={Object.entries(CHOICES).map(([value, { label }]) => ({ value, label }))}
      />
      {values.choice === "priority" && (
        <Field label="Priority">
          {(attributes) => (
            <NumberInput {...attributes} value={values.priority} onChange={(priority) => change({ priority })} />
          )}
        </Field>
      )}
      {(values.choice === "label" || values.choice === "unlabel") && (
        <TextField label="Label" value={values.key} onChange={(event) => change({ key: event.target.value })} />
      )}
      {values.choice === "label" && (
        <TextField label="Value" value={values.value} onChange={(event) => change({ value: event.target.value })} />
      )}
      <p className={styles.found} aria-live="polite">
        {action && found.data && foundWords(found.data)}
      </p>
    </FormDialog>
  );
}

function foundWords({ jobs, queued, running }: JobsActionAnswer): string {
  if (jobs === 0) return "It would change no job.";
  return `It changes ${counted(jobs, "job")}: ${counted(queued ?? 0, "waiting one")}, ${counted(running ?? 0, "running one")}.`;
}

function bodyOf(
  filter: ActionFilter,
  action: Partial<JobsActionRequest> | undefined,
  more: Partial<JobsActionRequest>,
): JobsActionRequest {
  return { action: "cancel", ...action, ...more, filter };
}

/** One request changes only some jobs. No more are changed than were counted. */
async function actOnAll(body: JobsActionRequest, counted: number): Promise<{ done: number; refused: number }> {
  let done = 0;
  for (;;) {
    const answer = await answerOf(api.POST("/jobs/actions", { body: { ...body, most: counted - done } }));
    done += answer.jobs;
    if (answer.remaining === 0 || answer.jobs === 0) return { done, refused: answer.refused.length };
  }
}
