import { useMutation, useQueryClient } from "@tanstack/react-query";

import { correctThroughput, removeCorrection } from "@/api/throughput-queries";
import { ago, counted } from "@/components/format";
import { useNow } from "@/components/now";
import { useSentForm } from "@/components/sent-form";
import { confidenceWord, percent, SOURCE_MEANINGS } from "@/components/throughputs/sources";
import { describe, throughputOn, valueText, type Chosen } from "@/features/throughputs/rows";
import { Button } from "@/ui/button";
import { Dialog, DialogActions } from "@/ui/dialog";
import { TextField } from "@/ui/field";
import { Form } from "@/ui/form";
import { Facts, muted } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

interface Draft {
  value: number | undefined;
  reason: string;
}

interface ThroughputDialogProps {
  chosen: Chosen;
  onClose: () => void;
}

/** Everything that is known of one throughput, and a place to correct it. */
export function ThroughputDialog({ chosen: { row, gpu_model: model }, onClose }: ThroughputDialogProps) {
  const say = useSay();
  const queries = useQueryClient();
  const throughput = throughputOn(row, model);
  const correction = throughput?.correction ?? null;
  const { tenant, application, gpus, spread, partner } = row;
  const setting = { tenant, application, gpus, spread, partner, gpu_model: model };
  // What is measured to many digits is a beginning, which nobody would type so.
  const known = throughput?.value == null || row.partner ? undefined : Number(throughput.value.toPrecision(4));
  const done = (text: string) => {
    void queries.invalidateQueries({ queryKey: ["throughputs"] });
    say("done", text);
    onClose();
  };
  const save = useMutation({
    mutationFn: ({ value, reason }: Draft) =>
      // The field wants a number, and the server refuses what has none: 0 has a meaning of its own.
      correctThroughput({ ...setting, value: value ?? Number.NaN, reason }),
    onSuccess: () => done(`Corrected ${describe(row, model)}.`),
  });
  const remove = useMutation({
    mutationFn: () => removeCorrection(setting),
    onSuccess: () => done(`Removed the correction of ${describe(row, model)}.`),
  });
  const { sending, field, number } = useSentForm<Draft>(
    { value: correction?.value ?? known, reason: correction?.reason ?? "" },
    save,
  );
  return (
    <Dialog open onClose={onClose} title={`Throughput on ${model}`} description={describe(row, model)}>
      <Known row={row} throughput={throughput} />
      {row.may_correct ? (
        <Form onSubmit={sending.onSubmit} notice={sending.notice ?? remove.error}>
          <TextField
            {...number("value")}
            label={row.partner ? "Relative to its throughput alone, 0 to 1" : "Samples per second of the whole gang"}
            hint="0: it does not run there. The correction overrides measurements until it is removed."
            required
            min={0}
            max={row.partner ? 1 : undefined}
            step="any"
          />
          <TextField {...field("reason")} label="Reason" hint="Others read it here" />
          <DialogActions>
            {correction && (
              <Button busy={remove.isPending} onClick={() => remove.mutate()}>
                Remove the correction
              </Button>
            )}
            <Button type="submit" look="primary" busy={sending.busy}>
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

function Known({ row, throughput }: { row: Chosen["row"]; throughput: ReturnType<typeof throughputOn> }) {
  const now = useNow();
  if (!throughput?.source) return <p>Not known yet.</p>;
  const { measured, declared, correction } = throughput;
  return (
    <>
      <p className={muted}>{SOURCE_MEANINGS[throughput.source]}.</p>
      <Facts
        facts={[
          ["In use", `${throughput.value === null ? "–" : valueText(row, throughput.value)}, ${throughput.source}`],
          ["Confidence", `${percent(throughput.confidence)}, ${confidenceWord(throughput.confidence)}`],
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
