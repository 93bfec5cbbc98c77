import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";

import { adviceListQuery, adviceQuery, cellsQuery } from "@/api/cell-queries";
import type { WholeAdvice } from "@/api/schema";
import { answerOf, api, ApiError, once } from "@/api/client";
import { gpuModelsQuery, virtualClustersQuery } from "@/api/queries";
import { bodyOf, emptyQuestion, type Minimum, type Question } from "@/features/advice/draft";
import { Button, IconButton } from "@/ui/button";
import { ErrorNotice } from "@/ui/feedback";
import { Checkbox, Field, NumberInput, Select } from "@/ui/field";
import { FieldGroup, Form } from "@/ui/form";
import styles from "@/features/advice/advice.module.css";

/** What is asked: over how many days, and within which limits. */
export function AdviceForm({ onAsked }: { onAsked: (advice: WholeAdvice) => void }) {
  const queries = useQueryClient();
  const models = (useQuery(gpuModelsQuery).data ?? []).map(({ name }) => name);
  const clusters = (useQuery(virtualClustersQuery).data ?? []).map(({ name }) => name);
  const [question, setQuestion] = useState<Question>(emptyQuestion);
  const change = (changed: Partial<Question>) => setQuestion((now) => ({ ...now, ...changed }));
  const ask = useMutation({
    mutationFn: () => answerOf(api.POST("/cells/advice", { params: { header: once() }, body: bodyOf(question) })),
    onSuccess: (advice) => {
      queries.setQueryData(adviceQuery(advice.id).queryKey, advice);
      void queries.invalidateQueries({ queryKey: adviceListQuery.queryKey });
      onAsked(advice);
    },
  });
  const refusal = ask.error instanceof ApiError ? ask.error : null;
  return (
    <Form onSubmit={() => ask.mutate()}>
      {ask.error && <ErrorNotice error={ask.error} />}
      <div className={styles.parts}>
        <Field label="Days of jobs" hint="Up to now" problem={refusal?.problem("days")}>
          {(attributes) => (
            <NumberInput {...attributes} min={1} value={question.days} onChange={(days) => change({ days })} />
          )}
        </Field>
        <FieldGroup legend="Limits by GPU model">
          {models.map((model) => (
            <div key={model} className={styles.model}>
              <Field label={`${model}, GPUs at most`} problem={refusal?.problem(`budget_gpus.${model}`)}>
                {(attributes) => (
                  <NumberInput
                    {...attributes}
                    min={0}
                    placeholder="all"
                    value={question.budget[model]}
                    onChange={(gpus) => change({ budget: { ...question.budget, [model]: gpus } })}
                  />
                )}
              </Field>
              <Field label={`${model}, price per hour`} problem={refusal?.problem(`price_per_gpu_hour.${model}`)}>
                {(attributes) => (
                  <NumberInput
                    {...attributes}
                    min={0}
                    step="any"
                    placeholder="none"
                    value={question.price[model]}
                    onChange={(price) => change({ price: { ...question.price, [model]: price } })}
                  />
                )}
              </Field>
            </div>
          ))}
        </FieldGroup>
        <FieldGroup legend="Leave as they are">
          <div className={styles.keep}>
            {clusters.map((name) => (
              <Checkbox
                key={name}
                label={name}
                checked={question.keep.includes(name)}
                onChange={(event) =>
                  change({
                    keep: event.target.checked
                      ? [...question.keep, name]
                      : question.keep.filter((kept) => kept !== name),
                  })
                }
              />
            ))}
          </div>
        </FieldGroup>
        <Minimums
          minimum={question.minimum}
          clusters={clusters}
          problem={refusal?.fields.find(({ field }) => field.startsWith("minimum"))?.problem}
          onChange={(minimum) => change({ minimum })}
        />
      </div>
      <div>
        <Button type="submit" look="primary" busy={ask.isPending}>
          Ask for advice
        </Button>
      </div>
    </Form>
  );
}

interface MinimumsProps {
  minimum: readonly Minimum[];
  clusters: readonly string[];
  problem: string | undefined;
  onChange: (minimum: Minimum[]) => void;
}

function Minimums({ minimum, clusters, problem, onChange }: MinimumsProps) {
  const chains = useQuery(cellsQuery).data?.chains ?? [];
  const types = [...new Set(chains.flatMap((chain) => chain.types.map(({ name }) => name).toReversed()))];
  const replace = (index: number, changed: Partial<Minimum>) =>
    onChange(minimum.map((each, at) => (at === index ? { ...each, ...changed } : each)));
  if (types.length === 0 || clusters.length === 0) return null;
  return (
    <FieldGroup legend="At least" problem={problem}>
      {minimum.map((each, index) => (
        <div key={index} className={styles.minimum}>
          <Select
            aria-label="Virtual cluster"
            value={each.cluster}
            onChange={(event) => replace(index, { cluster: event.target.value })}
            options={clusters.map((name) => ({ value: name, label: name }))}
          />
          <NumberInput
            aria-label={`Cells of ${each.cluster} at least`}
            min={0}
            value={each.count}
            onChange={(count) => replace(index, { count })}
          />
          <Select
            aria-label="Cell type"
            value={each.type}
            onChange={(event) => replace(index, { type: event.target.value })}
            options={types.map((name) => ({ value: name, label: name }))}
          />
          <IconButton
            label="Remove this minimum"
            icon={<Trash2 size={15} />}
            onClick={() => onChange(minimum.filter((_, at) => at !== index))}
          />
        </div>
      ))}
      <div>
        <Button
          icon={<Plus size={14} aria-hidden />}
          onClick={() => onChange([...minimum, { cluster: clusters[0] ?? "", type: types[0] ?? "", count: 1 }])}
        >
          Add a minimum
        </Button>
      </div>
    </FieldGroup>
  );
}
