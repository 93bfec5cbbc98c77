import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { makeRule } from "@/api/market-queries";
import { gpuModelsQuery } from "@/api/queries";
import type { RuleInputRequest } from "@/api/schema";
import { lotOf } from "@/features/market/choices";
import { LotFields, useChoices, type Counts } from "@/features/market/lot-fields";
import { useDeed } from "@/features/market/use-deed";
import { Button } from "@/ui/button";
import { Segments } from "@/ui/choice";
import { Dialog, DialogActions } from "@/ui/dialog";
import { ErrorNotice } from "@/ui/feedback";
import { Checkbox, Field, NumberInput, Select } from "@/ui/field";
import { FieldGroup, FieldRow, Form } from "@/ui/form";
import { Row } from "@/ui/layout";

const KINDS = [
  { value: "lend", label: "Lend what is idle" },
  { value: "borrow", label: "Borrow while jobs wait" },
] as const;

/** Sets a rule by which rounds lend or borrow for a virtual cluster. */
export function RuleDialog({ mine, onClose }: { mine: readonly string[]; onClose: () => void }) {
  const models = useQuery(gpuModelsQuery).data ?? [];
  const [kind, setKind] = useState<RuleInputRequest["kind"]>("lend");
  const [owner, setOwner] = useState(mine[0] ?? "");
  const [counts, setCounts] = useState<Counts>({});
  const [wanted, setWanted] = useState<readonly string[]>([]);
  const [mostGpus, setMostGpus] = useState<number | undefined>(4);
  const [waitMinutes, setWaitMinutes] = useState<number | undefined>(10);
  const [lendHours, setLendHours] = useState<number | undefined>(2);
  const [price, setPrice] = useState<number | undefined>(1);
  const choices = useChoices(owner);
  const make = useDeed(
    (rule: RuleInputRequest) => makeRule(rule),
    () => `${owner} ${kind}s by this rule from the next round on.`,
    onClose,
  );
  const { refusal } = make;
  const isLending = kind === "lend";
  const submit = () => {
    const common = { virtual_cluster: owner, kind, price_per_gpu_hour: price ?? 0 };
    const seconds = (waitMinutes ?? 0) * 60;
    make.mutate(
      isLending
        ? { ...common, lot: lotOf(choices, counts), idle_seconds: seconds, lend_seconds: (lendHours ?? 0) * 3600 }
        : { ...common, gpu_models: [...wanted], most_gpus: mostGpus ?? 0, waiting_seconds: seconds },
    );
  };
  return (
    <Dialog open onClose={onClose} title="Add a rule" description="Rounds act by it until it is removed.">
      <Form onSubmit={submit}>
        {make.error && <ErrorNotice error={make.error} />}
        <Segments label="What the rule does" value={kind} options={KINDS} onChange={setKind} />
        <Field label="Virtual cluster" problem={refusal?.explain("virtual_cluster")}>
          {(attributes) => (
            <Select
              {...attributes}
              value={owner}
              options={mine.map((name) => ({ value: name, label: name }))}
              onChange={(event) => setOwner(event.target.value)}
            />
          )}
        </Field>
        {isLending ? (
          <LotFields label="At most" choices={choices} counts={counts} onChange={setCounts} refusal={refusal} />
        ) : (
          <FieldGroup
            legend="GPU models; none: those that the waiting jobs accept"
            problem={refusal?.explain("gpu_models")}
          >
            <Row>
              {models.map(({ name }) => (
                <Checkbox
                  key={name}
                  label={name}
                  checked={wanted.includes(name)}
                  onChange={(event) =>
                    setWanted((now) => (event.target.checked ? [...now, name] : now.filter((each) => each !== name)))
                  }
                />
              ))}
            </Row>
          </FieldGroup>
        )}
        <FieldRow>
          <Figure
            label={isLending ? "Idle for, in minutes" : "Waiting for, in minutes"}
            value={waitMinutes}
            onChange={setWaitMinutes}
            problem={refusal?.explain(isLending ? "idle_seconds" : "waiting_seconds")}
          />
          {isLending ? (
            <Figure
              label="Lent for, in hours"
              value={lendHours}
              onChange={setLendHours}
              problem={refusal?.explain("lend_seconds")}
            />
          ) : (
            <Figure
              label="GPUs borrowed at most"
              value={mostGpus}
              onChange={setMostGpus}
              problem={refusal?.explain("most_gpus")}
            />
          )}
        </FieldRow>
        <Figure
          label={isLending ? "Credits for a GPU and an hour, at least" : "Credits for a GPU and an hour, at most"}
          value={price}
          onChange={setPrice}
          problem={refusal?.explain("price_per_gpu_hour")}
        />
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="primary" busy={make.isPending}>
            Add
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

interface FigureProps {
  label: string;
  value: number | undefined;
  onChange: (value: number | undefined) => void;
  problem: string | undefined;
}

function Figure({ label, value, onChange, problem }: FigureProps) {
  return (
    <Field label={label} problem={problem}>
      {(attributes) => <NumberInput {...attributes} required min={0} step="any" value={value} onChange={onChange} />}
    </Field>
  );
}
