import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { ApiError } from "@/api/client";
import { correctSpeed, removeCorrection } from "@/api/speed-queries";
import { ago, counted } from "@/components/format";
import { useNow } from "@/components/now";
import { confidenceWord, percent, SOURCE_MEANINGS } from "@/components/speeds/sources";
import { describe, speedOn, valueText, type Chosen } from "@/features/speeds/rows";
import { Button } from "@/ui/button";
import { Dialog, DialogActions } from "@/ui/dialog";
import { ErrorNotice } from "@/ui/feedback";
import { Field, NumberInput, TextInput } from "@/ui/field";
import { Form } from "@/ui/form";
import { Facts, muted } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

interface SpeedDialogProps {
  chosen: Chosen;
  onClose: () => void;
}

/** Everything that is known of one speed, and a place to correct it. */
export function SpeedDialog({ chosen: { row, gpu_model: model }, onClose }: SpeedDialogProps) {
  const say = useSay();
  const queries = useQueryClient();
  const speed = speedOn(row, model);
  const correction = speed?.correction ?? null;
  const { tenant, application, gpus, spread, partner } = row;
  const setting = { tenant, application, gpus, spread, partner, gpu_model: model };
  // What is measured to many digits is a beginning, which nobody would type so.
  const known = speed?.value == null || row.partner ? undefined : Number(speed.value.toPrecision(4));
  const [value, setValue] = useState(correction?.value ?? known);
  const [reason, setReason] = useState(correction?.reason ?? "");
  const done = (text: string) => {
    void queries.invalidateQueries({ queryKey: ["speeds"] });
    say("done", text);
    onClose();
  };
  const save = useMutation({
    mutationFn: (wanted: number) => correctSpeed({ ...setting, value: wanted, reason }),
    onSuccess: () => done(`Corrected ${describe(row, model)}.`),
  });
  const remove = useMutation({
    mutationFn: () => removeCorrection(setting),
    onSuccess: () => done(`Removed the correction of ${describe(row, model)}.`),
  });
  const error = save.error ?? remove.error;
  const refusal = save.error instanceof ApiError ? save.error : null;
  return (
    <Dialog open onClose={onClose} title={`Speed on ${model}`} description={describe(row, model)}>
      <Known row={row} speed={speed} />
      {row.may_correct ? (
        <Form
          onSubmit={() => {
            if (value !== undefined) save.mutate(value);
          }}
        >
          {error && <ErrorNotice error={error} />}
          <Field
            label={row.partner ? "Part of its speed alone, 0 to 1" : "Samples per second of the whole gang"}
            hint="0: it does not run there. It counts until it is removed, whatever is measured."
            problem={refusal?.problem("value")}
          >
            {(attributes) => (
              <NumberInput
                {...attributes}
                required
                min={0}
                max={row.partner ? 1 : undefined}
                step="any"
                value={value}
                onChange={setValue}
              />
            )}
          </Field>
          <Field label="Reason" hint="Others read it here" problem={refusal?.problem("reason")}>
            {(attributes) => (
              <TextInput {...attributes} value={reason} onChange={(event) => setReason(event.target.value)} />
            )}
          </Field>
          <DialogActions>
            {correction && (
              <Button busy={remove.isPending} onClick={() => remove.mutate()}>
                Remove the correction
              </Button>
            )}
            <Button type="submit" look="primary" busy={save.isPending}>
              Correct
            </Button>
          </DialogActions>
        </Form>
      ) : (
        <p className={muted}>Admins of {row.tenant} and operators can correct it.</p>
      )}
    </Dialog>
  );
}

function Known({ row, speed }: { row: Chosen["row"]; speed: ReturnType<typeof speedOn> }) {
  const now = useNow();
  if (!speed?.source) return <p>Nothing is known of it yet.</p>;
  const { measured, declared, correction } = speed;
  return (
    <>
      <p className={muted}>{SOURCE_MEANINGS[speed.source]}.</p>
      <Facts
        facts={[
          ["In use", `${speed.value === null ? "–" : valueText(row, speed.value)}, ${speed.source}`],
          ["Confidence", `${percent(speed.confidence)}, ${confidenceWord(speed.confidence)}`],
          ...(measured
            ? [
                ["Measured", `${valueText(row, measured.average)} ± ${valueText(row, measured.deviation)}`] as const,
                ["From", `${counted(measured.samples, "sample")}, last ${ago(measured.updated_at, now)}`] as const,
              ]
            : []),
          ...(declared === null ? [] : [["Declared", valueText(row, declared)] as const]),
          ...(correction ? [["Corrected", `by ${correction.by}, ${ago(correction.at, now)}`] as const] : []),
        ]}
      />
      {correction?.reason && <p>“{correction.reason}”</p>}
    </>
  );
}
