import { useQuery } from "@tanstack/react-query";

import { cellsQuery, virtualClusterCellsQuery } from "@/api/cell-queries";
import { explained, type ApiError } from "@/api/client";
import { gpuModelsQuery, virtualClustersQuery } from "@/api/queries";
import { choicesOf, keyOf, type Choice } from "@/features/market/choices";
import { EmptyState } from "@/ui/feedback";
import { Field, NumberInput, Select } from "@/ui/field";
import { FieldGroup, FieldRow } from "@/ui/form";
import { muted } from "@/ui/layout";
import styles from "@/features/market/market.module.css";

/** How many of each choice, by its key. */
export type Counts = Readonly<Record<string, number | undefined>>;

/** What a virtual cluster could lend, with what of it is idle now. */
export function useChoices(virtualCluster: string): readonly Choice[] {
  const cluster = useQuery(virtualClustersQuery).data?.find(({ name }) => name === virtualCluster);
  const cells = useQuery(cellsQuery).data;
  const owned = useQuery({ ...virtualClusterCellsQuery(virtualCluster), enabled: virtualCluster !== "" });
  if (!cluster) return [];
  return choicesOf(cluster, cells?.specification.types ?? {}, cells?.gpu_models ?? [], owned.data?.cells ?? []);
}

interface LotFieldsProps {
  label: string;
  choices: readonly Choice[];
  counts: Counts;
  onChange: (counts: Counts) => void;
  refusal: ApiError | null;
}

/** A number for each kind of cell and GPU of which there is one. */
export function LotFields({ label, choices, counts, onChange, refusal }: LotFieldsProps) {
  // What was typed for a choice that there is no longer is not offered unseen.
  const present = Object.fromEntries(choices.map((choice) => [keyOf(choice), counts[keyOf(choice)]]));
  const lines = choices.map((choice) => `lot.${keyOf(choice)}`);
  // Of the whole, or of what is not among the choices any more.
  const other = refusal?.fields.find(({ field }) => /^lot(\.|$)/.test(field) && !lines.includes(field));
  return (
    <FieldGroup legend={label} problem={other && explained(other)}>
      {choices.length === 0 && <EmptyState title="It owns no GPUs to lend" />}
      {choices.map((choice) => {
        const problem = refusal?.explain(`lot.${keyOf(choice)}`);
        return (
          <label key={keyOf(choice)} className={styles.line}>
            <span>
              {choice.name}{" "}
              <span className={muted}>
                {choice.owned} owned, {choice.idle} idle now{choice.within && `, as parts of ${choice.within}`}
              </span>
            </span>
            <NumberInput
              min={0}
              max={choice.owned}
              placeholder="0"
              value={counts[keyOf(choice)]}
              aria-invalid={problem ? true : undefined}
              onChange={(number) => onChange({ ...present, [keyOf(choice)]: number })}
            />
            {problem && <span className={styles.problem}>{problem}</span>}
          </label>
        );
      })}
    </FieldGroup>
  );
}

/** One kind of cell or GPU and how many of it: what is wanted of somebody else. */
export interface Wanted {
  part: "gpus" | "cells";
  name: string;
  number: number | undefined;
}

interface WantedFieldsProps {
  wanted: Wanted;
  onChange: (wanted: Wanted) => void;
  problem: string | undefined;
}

export function WantedFields({ wanted, onChange, problem }: WantedFieldsProps) {
  const cells = useQuery(cellsQuery).data;
  const models = useQuery(gpuModelsQuery).data ?? [];
  const divided = cells?.gpu_models ?? [];
  const names = [
    ...models.filter(({ name }) => !divided.includes(name)).map(({ name }) => `gpus.${name}`),
    ...Object.keys(cells?.specification.types ?? {}).map((name) => `cells.${name}`),
    ...divided.map((name) => `cells.${name}`),
  ];
  const options = names.map((key) => ({ value: key, label: key.slice(key.indexOf(".") + 1) }));
  return (
    <FieldRow>
      <Field label="In return">
        {(attributes) => (
          <Select
            {...attributes}
            value={wanted.name && keyOf(wanted)}
            options={[{ value: "", label: "Choose" }, ...options]}
            onChange={({ target: { value } }) =>
              onChange({
                ...wanted,
                part: value.startsWith("cells.") ? "cells" : "gpus",
                name: value.slice(value.indexOf(".") + 1),
              })
            }
          />
        )}
      </Field>
      <Field label="How many" problem={problem}>
        {(attributes) => (
          <NumberInput
            {...attributes}
            required
            min={1}
            value={wanted.number}
            onChange={(number) => onChange({ ...wanted, number })}
          />
        )}
      </Field>
    </FieldRow>
  );
}
