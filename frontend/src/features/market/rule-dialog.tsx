import { useQuery } from "@tanstack/react-query";
import { useWatch } from "react-hook-form";

import { makeRule } from "@/api/market-queries";
import { gpuModelsQuery } from "@/api/queries";
import type { RuleInputRequest } from "@/api/schema";
import { useSentForm } from "@/components/sent-form";
import { lotOf } from "@/features/market/choices";
import { LotFields, useChoices, type Counts } from "@/features/market/lot-fields";
import { useDeed } from "@/features/market/use-deed";
import { Segments } from "@/ui/choice";
import { FormDialog } from "@/ui/dialog";
import { Checkbox, SelectField, TextField } from "@/ui/field";
import { FieldGroup, FieldRow } from "@/ui/form";
import { Row } from "@/ui/layout";

const KINDS = [
  { value: "lend", label: "Lend what is idle" },
  { value: "borrow", label: "Borrow while jobs wait" },
] as const;

const FIGURE = { required: true, min: 0, step: "any" };

interface Draft {
  kind: RuleInputRequest["kind"];
  virtual_cluster: string;
  lot: Counts;
  gpu_models: string[];
  most_gpus: number | undefined;
  /** How long something is idle or waits, in minutes. */
  minutes: number | undefined;
  /** In hours. */
  lend_seconds: number | undefined;
  price_per_gpu_hour: number | undefined;
}

/** Sets a rule by which rounds lend or borrow for a virtual cluster. */
export function RuleDialog({ mine, onClose }: { mine: readonly string[]; onClose: () => void }) {
  const models = useQuery(gpuModelsQuery).data ?? [];
  const make = useDeed(
    (draft: Draft) => makeRule(ruleOf(draft)),
    ({ kind, virtual_cluster: owner }) => `${owner} ${kind}s by this rule, starting with the next round.`,
    onClose,
  );
  const { sending, field, number, register, problem, control, setValue } = useSentForm<Draft>(
    {
      kind: "lend",
      virtual_cluster: mine[0] ?? "",
      lot: {},
      gpu_models: [],
      most_gpus: 4,
      minutes: 10,
      lend_seconds: 2,
      price_per_gpu_hour: 1,
    },
    make,
    { fieldOf: (name) => (["idle_seconds", "waiting_seconds"].includes(name) ? "minutes" : name) },
  );
  const [kind, owner, lot] = useWatch({ control, name: ["kind", "virtual_cluster", "lot"] });
  const choices = useChoices(owner);
  const isLending = kind === "lend";
  return (
    <FormDialog
      title="Add a rule"
      description="Rounds follow it until it is removed."
      sending={sending}
      action="Add"
      onClose={onClose}
    >
      <Segments label="What the rule does" value={kind} options={KINDS} onChange={(next) => setValue("kind", next)} />
      <SelectField
        {...field("virtual_cluster", { onChange: () => setValue("lot", {}) })}
        label="Virtual cluster"
        options={mine.map((name) => ({ value: name, label: name }))}
      />
      {isLending ? (
        <LotFields
          label="At most"
          choices={choices}
          counts={lot}
          onChange={(counts) => setValue("lot", counts)}
          refusal={make.refusal}
        />
      ) : (
        <FieldGroup legend="GPU models; none: those that the waiting jobs accept" problem={problem("gpu_models")}>
          <Row>
            {models.map(({ name }) => (
              <Checkbox key={name} {...register("gpu_models")} value={name} label={name} />
            ))}
          </Row>
        </FieldGroup>
      )}
      <FieldRow>
        <TextField
          {...number("minutes")}
          {...FIGURE}
          label={isLending ? "Idle for, in minutes" : "Waiting for, in minutes"}
        />
        {isLending ? (
          <TextField key="lent" {...number("lend_seconds")} {...FIGURE} label="Lent for, in hours" />
        ) : (
          <TextField key="borrowed" {...number("most_gpus")} {...FIGURE} label="GPUs borrowed at most" />
        )}
      </FieldRow>
      <TextField
        {...number("price_per_gpu_hour")}
        {...FIGURE}
        label={`Credits per GPU and hour, at ${isLending ? "least" : "most"}`}
      />
    </FormDialog>
  );
}

function ruleOf(draft: Draft): RuleInputRequest {
  const { kind, virtual_cluster, lot, gpu_models, most_gpus = 0, minutes = 0, lend_seconds: hours = 0 } = draft;
  const common = { virtual_cluster, kind, price_per_gpu_hour: draft.price_per_gpu_hour ?? 0 };
  return kind === "lend"
    ? { ...common, lot: lotOf(lot), idle_seconds: minutes * 60, lend_seconds: hours * 3600 }
    : { ...common, gpu_models, most_gpus, waiting_seconds: minutes * 60 };
}
