import { useQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";

import { virtualClustersQuery } from "@/api/queries";
import { asObject, asText, type Path } from "@/components/yaml/document";
import { DECLARED, valueAt } from "@/features/submit/declared";
import { DeclaredControl } from "@/features/submit/declared-control";
import { NotifyChoice } from "@/features/submit/notify-choice";
import { SecretChoice } from "@/features/submit/secret-choice";
import styles from "@/features/submit/submit-page.module.css";
import { TaskCard } from "@/features/submit/task-card";
import { Button } from "@/ui/button";
import { Notice } from "@/ui/feedback";
import { Field, Select } from "@/ui/field";
import { FieldRow } from "@/ui/form";
import { Stack } from "@/ui/layout";

const OFTEN_USED = ["time_limit", "estimate", "application", "checkpoint.grace_seconds"];
const WITH_THEIR_OWN_PLACE = ["name", "priority", "topology.level", ...OFTEN_USED];
/** Whatever else is declared with a label is here without another word. */
const SELDOM_USED = DECLARED.map(({ where }) => where).filter((where) => !WITH_THEIR_OWN_PLACE.includes(where));

export type Spec = Record<string, unknown>;

interface SpecFormProps {
  spec: Spec;
  tenant: string;
  problemOf: (field: string) => string | undefined;
  onEdit: (path: Path, value: unknown) => void;
}

/** The common fields of a specification; what it does not show stays in the YAML as it is. */
export function SpecForm({ spec, tenant, problemOf, onEdit }: SpecFormProps) {
  const clusters = useQuery(virtualClustersQuery);
  const open = (clusters.data ?? []).filter(({ members }) => members.some((member) => member.tenant === tenant));
  const tasks = Array.isArray(spec.tasks) ? (spec.tasks as unknown[]) : null;
  const topology = asObject(spec.topology);
  const [wasSaid] = useState(() => SELDOM_USED.some((where) => valueAt(spec, where) !== undefined));
  const controls = (places: readonly string[]) =>
    DECLARED.filter(({ where }) => places.includes(where)).map((field) => (
      <DeclaredControl key={field.where} field={field} spec={spec} problemOf={problemOf} onEdit={onEdit} />
    ));
  return (
    <Stack>
      <FieldRow>
        {controls(["name"])}
        <Field label="Virtual cluster" problem={problemOf("virtual_cluster")}>
          {(attributes) => (
            <Select
              {...attributes}
              value={asText(spec.virtual_cluster)}
              onChange={(event) => onEdit(["virtual_cluster"], event.target.value || undefined)}
              options={withCurrent(asText(spec.virtual_cluster), [
                { value: "", label: "The tenant's default" },
                ...open.map(({ name, title }) => ({ value: name, label: title ? `${name} (${title})` : name })),
              ])}
            />
          )}
        </Field>
        <Field
          label="Guarantee"
          hint={
            spec.guarantee === "opportunistic"
              ? "Runs on idle GPUs; gives way to guaranteed jobs."
              : "Runs on the guaranteed GPUs of the virtual cluster."
          }
          problem={problemOf("guarantee")}
        >
          {(attributes) => (
            <Select
              {...attributes}
              value={asText(spec.guarantee) || "guaranteed"}
              onChange={(event) => onEdit(["guarantee"], event.target.value)}
              options={[
                { value: "guaranteed", label: "Guaranteed" },
                { value: "opportunistic", label: "Opportunistic" },
              ]}
            />
          )}
        </Field>
        {controls(["priority"])}
      </FieldRow>

      {tasks ? (
        tasks.map((task, index) => (
          <TaskCard
            key={index}
            task={asObject(task)}
            index={index}
            problemOf={problemOf}
            onEdit={onEdit}
            onRemove={tasks.length > 1 ? () => onEdit(["tasks", index], undefined) : undefined}
          />
        ))
      ) : (
        <Notice>
          The text uses the short form (command, gpus). The form edits tasks: write <code>tasks:</code> to use it.
        </Notice>
      )}
      {tasks && tasks.length < 8 && (
        <Button
          look="quiet"
          icon={<Plus size={14} aria-hidden />}
          onClick={() =>
            onEdit(["tasks", tasks.length], {
              name: `task-${tasks.length + 1}`,
              replicas: 1,
              resources: { gpu: 1 },
              command: "true",
            })
          }
        >
          Add a task
        </Button>
      )}

      <FieldRow>
        {controls(OFTEN_USED)}
        <Field label="Keep together" problem={problemOf("topology.level")}>
          {(attributes) => (
            <Select
              {...attributes}
              value={asText(topology.level)}
              onChange={(event) =>
                onEdit(event.target.value ? ["topology", "level"] : ["topology"], event.target.value || undefined)
              }
              options={[
                { value: "", label: "As near as possible" },
                { value: "rack", label: "In one rack" },
                { value: "node", label: "On one node" },
                { value: "socket", label: "On one socket" },
                { value: "switch", label: "On one switch" },
              ]}
            />
          )}
        </Field>
        {topology.level !== undefined && (
          <Field label="If that is not possible" problem={problemOf("topology.required")}>
            {(attributes) => (
              <Select
                {...attributes}
                value={topology.required === true ? "required" : "preferred"}
                onChange={(event) => onEdit(["topology", "required"], event.target.value === "required")}
                options={[
                  { value: "preferred", label: "Run spread out" },
                  { value: "required", label: "Wait" },
                ]}
              />
            )}
          </Field>
        )}
        <SecretChoice secrets={spec.secrets} tenant={tenant} problemOf={problemOf} onEdit={onEdit} />
        <NotifyChoice notify={spec.notify} problemOf={problemOf} onEdit={onEdit} />
      </FieldRow>
      <details className={styles.more} open={wasSaid}>
        <summary>More fields</summary>
        <FieldRow>{controls(SELDOM_USED)}</FieldRow>
      </details>
    </Stack>
  );
}

/** A select must also offer what the text says, even when that is wrong. */
function withCurrent(value: string, options: { value: string; label: string }[]) {
  return options.some((option) => option.value === value) ? options : [...options, { value, label: value }];
}
