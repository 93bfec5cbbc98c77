import { useQuery } from "@tanstack/react-query";

import type { ClusterSettings } from "@/api/schema";
import { clusterSettingsQuery } from "@/api/settings-queries";
import { duration } from "@/components/format";
import { SaveButtons, useSettingsForm } from "@/components/kept-form";
import { useSession } from "@/components/session";
import { ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { Field, NumberInput, Select } from "@/ui/field";
import { FieldRow, Form } from "@/ui/form";
import { muted, Panel, Stack } from "@/ui/layout";

const MINUTE_SECONDS = 60;
const WEEK_MINUTES = 7 * 24 * 60;
const THEN = [
  { value: "warn", label: "Tell the job's owner" },
  { value: "stop", label: "Stop the job" },
];

/** What holds for jobs that do not say so themselves; operators change it. */
export function IdleGpusPanel() {
  const me = useSession();
  const query = useQuery(clusterSettingsQuery);
  return (
    <Panel title="Idle GPUs of jobs">
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines count={2} />}
      {query.data && (
        <Stack>
          {me.is_operator ? <IdleGpusForm settings={query.data} /> : <p>{inWords(query.data)}</p>}
          <p className={muted}>
            A job can override this: <code>watch</code> in its specification.
          </p>
        </Stack>
      )}
    </Panel>
  );
}

function inWords(settings: ClusterSettings): string {
  const { idle_gpus_seconds: seconds, idle_gpus_below_percent: below, idle_gpus_then: then } = settings;
  if (seconds === null) return "No action for jobs with idle GPUs.";
  const done = then === "stop" ? "is stopped" : "is reported to its owner";
  return `A job whose GPUs were all less than ${below} % busy for ${duration(seconds)} ${done}.`;
}

function IdleGpusForm({ settings }: { settings: ClusterSettings }) {
  const form = useSettingsForm(settings, { form: "idle GPUs", done: "Saved the action for idle GPUs." });
  const { draft, change, problem } = form;
  return (
    <Form onSubmit={form.save} notice={form.notice} onReload={form.onReload}>
      <FieldRow>
        <Field
          label="Minutes for which all GPUs of a job are idle"
          hint="Empty: no action"
          problem={problem("idle_gpus_seconds")}
        >
          {(attributes) => (
            <NumberInput
              {...attributes}
              min={1}
              max={WEEK_MINUTES}
              step="any"
              value={draft.idle_gpus_seconds == null ? undefined : draft.idle_gpus_seconds / MINUTE_SECONDS}
              onChange={(minutes) =>
                change({ idle_gpus_seconds: minutes === undefined ? null : minutes * MINUTE_SECONDS })
              }
            />
          )}
        </Field>
        <Field label="Idle threshold (GPU utilisation, %)" problem={problem("idle_gpus_below_percent")}>
          {(attributes) => (
            <NumberInput
              {...attributes}
              required
              min={0.1}
              max={100}
              step="any"
              value={draft.idle_gpus_below_percent}
              onChange={(percent) => change({ idle_gpus_below_percent: percent })}
            />
          )}
        </Field>
        <Field label="Then" problem={problem("idle_gpus_then")}>
          {(attributes) => (
            <Select
              {...attributes}
              value={draft.idle_gpus_then}
              options={THEN}
              onChange={(event) => change({ idle_gpus_then: event.target.value as ClusterSettings["idle_gpus_then"] })}
            />
          )}
        </Field>
      </FieldRow>
      <SaveButtons isChanged={form.isChanged} busy={form.isSaving} onDiscard={form.discard} />
    </Form>
  );
}
