import { Link } from "@tanstack/react-router";
import { HelpCircle } from "lucide-react";
import { useState } from "react";

import { ApiError } from "@/api/client";
import type { VirtualCluster } from "@/api/schema";
import { useWhatIf, WhatIfAnswer } from "@/components/what-if";
import { Button } from "@/ui/button";
import { Dialog } from "@/ui/dialog";
import { ErrorNotice } from "@/ui/feedback";
import { Field, NumberInput, Select } from "@/ui/field";
import { Form } from "@/ui/form";
import { Stack } from "@/ui/layout";

interface EnlargeProps {
  cluster: VirtualCluster;
  /** Those that are divided by counts. */
  models: readonly string[];
  onClose: () => void;
}

/** Who would start sooner if the virtual cluster were guaranteed more, and who would pay. For operators. */
export function EnlargeWhatIf({ cluster, models, onClose }: EnlargeProps) {
  const ask = useWhatIf();
  const [model, setModel] = useState(models.find((name) => name in cluster.guaranteed) ?? models[0] ?? "");
  const [more, setMore] = useState<number | undefined>(1);
  const refusal = ask.error instanceof ApiError ? ask.error : null;
  if (models.length === 0) {
    return (
      <Dialog open onClose={onClose} title={`What if ${cluster.name} had more?`}>
        <p>
          All GPUs are divided by cells. Ask for <Link to="/cells/advice">advice</Link>, or try it in{" "}
          <Link to="/cells/edit">the editor</Link>: it shows the effect of other cells before you apply them.
        </p>
      </Dialog>
    );
  }
  return (
    <Dialog open onClose={onClose} title={`What if ${cluster.name} had more?`} description="Changes nothing.">
      <Stack>
        <Form
          onSubmit={() =>
            ask.mutate({
              cluster: { enlarge: [{ virtual_cluster: cluster.name, gpu_model: model, more_gpus: more ?? 0 }] },
            })
          }
        >
          <Stack>
            <Field label="GPU model">
              {(attributes) => (
                <Select
                  {...attributes}
                  value={model}
                  onChange={(event) => setModel(event.target.value)}
                  options={models.map((name) => ({ value: name, label: name }))}
                />
              )}
            </Field>
            <Field label="More GPUs guaranteed" problem={refusal?.problem("more_gpus")}>
              {(attributes) => <NumberInput {...attributes} min={1} value={more} onChange={setMore} />}
            </Field>
            <Button type="submit" icon={<HelpCircle size={14} aria-hidden />} busy={ask.isPending}>
              What would happen to the queue?
            </Button>
          </Stack>
        </Form>
        {ask.error && !refusal?.problem("more_gpus") && <ErrorNotice error={ask.error} />}
        {ask.data && <WhatIfAnswer answer={ask.data} />}
      </Stack>
    </Dialog>
  );
}
