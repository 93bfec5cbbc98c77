import { useQuery } from "@tanstack/react-query";
import { HelpCircle } from "lucide-react";
import { useState } from "react";

import { ApiError } from "@/api/client";
import { gpuModelsQuery } from "@/api/queries";
import type { Job, JobChangesRequest } from "@/api/schema";
import { useWhatIf, WhatIfAnswer } from "@/components/what-if";
import styles from "@/features/job/job-what-if.module.css";
import { Button } from "@/ui/button";
import { ErrorNotice } from "@/ui/feedback";
import { Checkbox, Field, NumberInput, Select, TextInput } from "@/ui/field";
import { Form } from "@/ui/form";
import { Panel, Stack } from "@/ui/layout";

/** When the job would start if it asked for something else; nothing is changed. */
export function JobWhatIf({ job }: { job: Job }) {
  const models = useQuery(gpuModelsQuery).data ?? [];
  const ask = useWhatIf();
  const { tasks } = job.spec;
  const own = tasks.length === 1 ? tasks[0]?.resources.gpu : undefined;
  const [gpus, setGpus] = useState<number | undefined>(own);
  const [model, setModel] = useState("");
  const [limit, setLimit] = useState("");
  const [opportunistic, setOpportunistic] = useState(job.guarantee === "opportunistic");
  const changes: JobChangesRequest = {
    ...(gpus !== undefined && gpus !== own && { gpus }),
    ...(model && { gpu_models: model === "any" ? "any" : [model] }),
    ...(limit.trim() && { time_limit: limit.trim() }),
    ...(opportunistic !== (job.guarantee === "opportunistic") && {
      guarantee: opportunistic ? "opportunistic" : "guaranteed",
    }),
  };
  const refusal = ask.error instanceof ApiError ? ask.error : null;
  const problem = (field: string) => refusal?.problem(`changes.${field}`);
  return (
    <Panel title="What if">
      <Stack>
        <Form className={styles.form} onSubmit={() => ask.mutate({ job: job.id, changes })}>
          {own !== undefined && (
            <Field label="GPUs of each replica" problem={problem("gpus")}>
              {(attributes) => <NumberInput {...attributes} min={1} max={16} value={gpus} onChange={setGpus} />}
            </Field>
          )}
          <Field label="GPU model" problem={problem("gpu_models")}>
            {(attributes) => (
              <Select
                {...attributes}
                value={model}
                onChange={(event) => setModel(event.target.value)}
                options={[
                  { value: "", label: job.gpu_models.join(", ") || "as it is: any" },
                  ...(job.gpu_models.length > 0 ? [{ value: "any", label: "any" }] : []),
                  ...models.map(({ name }) => ({ value: name, label: name })),
                ]}
              />
            )}
          </Field>
          <Field label="Time limit" problem={problem("time_limit")}>
            {(attributes) => (
              <TextInput
                {...attributes}
                placeholder="as it is"
                value={limit}
                onChange={(event) => setLimit(event.target.value)}
              />
            )}
          </Field>
          <Checkbox
            label="Opportunistic"
            checked={opportunistic}
            onChange={(event) => setOpportunistic(event.target.checked)}
          />
          <Button
            type="submit"
            icon={<HelpCircle size={14} aria-hidden />}
            busy={ask.isPending}
            disabled={Object.keys(changes).length === 0}
          >
            When would it start?
          </Button>
        </Form>
        {ask.error && <ErrorNotice error={ask.error} />}
        {ask.data && <WhatIfAnswer answer={ask.data} />}
      </Stack>
    </Panel>
  );
}
