import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { cellsQuery } from "@/api/cell-queries";
import { answerOf, api, ApiError, once } from "@/api/client";
import { editionQuery } from "@/api/edition";
import { gpuModelsQuery, policiesQuery, tenantsQuery } from "@/api/queries";
import type { ChosenPlugin, VirtualCluster, VirtualClusterInputRequest } from "@/api/schema";
import { useDraft, useEdition, useRefusal } from "@/components/edition";
import { PluginChoice } from "@/features/virtual-clusters/plugin-choice";
import styles from "@/features/virtual-clusters/virtual-clusters.module.css";
import { live } from "@/live/live";
import { Button } from "@/ui/button";
import { Dialog, DialogActions } from "@/ui/dialog";
import { Checkbox, Field, NumberInput, SelectField, TextInput } from "@/ui/field";
import { FieldGroup, FieldRow, Form } from "@/ui/form";
import { useSay } from "@/ui/toasts";

/** What `sharing` of a virtual cluster means. */
export const SHARING: Record<VirtualCluster["sharing"], string> = {
  never: "never",
  measured: "pairs of jobs with good measurements",
  free: "all pairs, also unmeasured ones",
};

/** What `overcommit` of a virtual cluster means. */
export const OVERCOMMIT: Record<VirtualCluster["overcommit"], string> = {
  never: "never",
  predicted: "beyond the predicted peak",
};

interface FormProps {
  /** Null to make a new one. */
  cluster: VirtualCluster | null;
  onClose: () => void;
}

const virtualClusterEdition = (name: string) =>
  editionQuery(["virtual-clusters", name], () => api.GET("/virtual-clusters/{name}", { params: { path: { name } } }));

export function VirtualClusterForm({ cluster: shown, onClose }: FormProps) {
  const say = useSay();
  const queries = useQueryClient();
  const policies = useQuery(policiesQuery);
  const models = useQuery(gpuModelsQuery);
  const tenants = useQuery(tenantsQuery);
  const divided = useQuery(cellsQuery).data?.gpu_models ?? [];
  const editing = useEdition(shown && virtualClusterEdition(shown.name), shown);
  const cluster = editing.thing;
  const [draft, change] = useDraft<Draft>(draftOf(cluster));
  const save = useMutation({
    mutationFn: () =>
      answerOf(
        cluster
          ? api.PUT("/virtual-clusters/{name}", {
              params: { path: { name: cluster.name }, header: editing.edition },
              body: bodyOf(draft, divided),
            })
          : api.POST("/virtual-clusters", {
              params: { header: once() },
              body: { ...bodyOf(draft, divided), name: draft.name },
            }),
      ),
    onSuccess: (saved) => {
      live.apply({ type: "fetched", kind: "virtual_cluster", objects: [saved], since: live.current().clock });
      void queries.invalidateQueries({ queryKey: ["virtual-clusters"] });
      say("done", `Saved virtual cluster ${saved.name}.`);
      onClose();
    },
  });
  const { notice, onReload } = useRefusal(save, editing);
  const refusal = save.error instanceof ApiError ? save.error : null;
  const modelNames = [...new Set([...(models.data ?? []).map(({ name }) => name), ...Object.keys(draft.guaranteed)])];
  const tenantNames = [...new Set([...(tenants.data ?? []).map(({ name }) => name), ...Object.keys(draft.members)])];
  return (
    <Dialog open onClose={onClose} title={cluster ? `Edit ${cluster.name}` : "New virtual cluster"}>
      <Form onSubmit={() => save.mutate()} notice={notice} onReload={onReload}>
        <FieldRow>
          {!cluster && (
            <Field label="Name" problem={refusal?.explain("name")}>
              {(attributes) => (
                <TextInput
                  {...attributes}
                  required
                  value={draft.name}
                  onChange={(event) => change({ name: event.target.value })}
                />
              )}
            </Field>
          )}
          <Field label="Title" problem={refusal?.explain("title")}>
            {(attributes) => (
              <TextInput
                {...attributes}
                value={draft.title}
                onChange={(event) => change({ title: event.target.value })}
              />
            )}
          </Field>
        </FieldRow>

        <FieldGroup legend="Guaranteed GPUs">
          {modelNames.map((model) => (
            <label key={model} className={styles.line}>
              <span>
                {model}{" "}
                <span className={styles.weight}>{thereAre(models.data?.find(({ name }) => name === model))}</span>
              </span>
              <NumberInput
                min={0}
                disabled={divided.includes(model)}
                value={draft.guaranteed[model]}
                placeholder="0"
                aria-invalid={refusal?.explain(`guaranteed.${model}`) ? true : undefined}
                onChange={(gpus) => change({ guaranteed: { ...draft.guaranteed, [model]: gpus } })}
              />
              {divided.includes(model) && <Link to="/cells/edit">from cells</Link>}
              <span className={styles.problem}>{refusal?.explain(`guaranteed.${model}`)}</span>
            </label>
          ))}
        </FieldGroup>

        <FieldGroup legend="Members and their weights">
          {tenantNames.map((tenant) => (
            <div key={tenant} className={styles.line}>
              <Checkbox
                label={tenant}
                checked={draft.members[tenant] !== undefined}
                onChange={(event) =>
                  change({ members: { ...draft.members, [tenant]: event.target.checked ? 1 : undefined } })
                }
              />
              {draft.members[tenant] !== undefined && (
                <NumberInput
                  aria-label={`Weight of ${tenant}`}
                  min={0}
                  step="any"
                  value={draft.members[tenant]}
                  onChange={(weight) => change({ members: { ...draft.members, [tenant]: weight ?? 0 } })}
                />
              )}
            </div>
          ))}
        </FieldGroup>

        <PluginChoice
          label="Policy"
          plugins={policies.data?.policies}
          chosen={draft.policy}
          onChange={(policy) => change({ policy })}
          problem={(field) => refusal?.explain(`policy_plugin.${field}`)}
        />
        <PluginChoice
          label="Placer"
          plugins={policies.data?.placers}
          chosen={draft.placer}
          onChange={(placer) => change({ placer })}
          problem={(field) => refusal?.explain(`placer_plugin.${field}`)}
        />
        <FieldRow>
          <Field
            label="Default time limit in seconds"
            hint="For jobs without a limit"
            problem={refusal?.explain("default_time_limit_seconds")}
          >
            {(attributes) => (
              <NumberInput
                {...attributes}
                min={1}
                value={draft.defaultTimeLimitSeconds}
                onChange={(seconds) => change({ defaultTimeLimitSeconds: seconds })}
              />
            )}
          </Field>
          <SelectField
            label="Sharing of GPUs"
            hint="Whether its jobs may share GPUs"
            problem={refusal?.explain("sharing")}
            value={draft.sharing}
            options={Object.entries(SHARING).map(([value, label]) => ({ value, label }))}
            onChange={(event) => change({ sharing: event.target.value as VirtualCluster["sharing"] })}
          />
        </FieldRow>
        <FieldRow>
          <Field
            label="Minimum run time before preemption, in seconds"
            hint="Policies do not preempt younger attempts; 0: no minimum"
            problem={refusal?.explain("min_run_seconds")}
          >
            {(attributes) => (
              <NumberInput
                {...attributes}
                min={0}
                value={draft.minRunSeconds}
                onChange={(seconds) => change({ minRunSeconds: seconds })}
              />
            )}
          </Field>
          <Field
            label="Minimum run time before a reclaim, in seconds"
            hint="Guarantees do not reclaim GPUs of younger opportunistic attempts; 0: no minimum"
            problem={refusal?.explain("reclaim_min_run_seconds")}
          >
            {(attributes) => (
              <NumberInput
                {...attributes}
                min={0}
                value={draft.reclaimMinRunSeconds}
                onChange={(seconds) => change({ reclaimMinRunSeconds: seconds })}
              />
            )}
          </Field>
          <Field
            label="Longest wait, in seconds"
            hint="After this time GPUs are reserved for the job, under every policy; 0: never"
            problem={refusal?.explain("longest_wait_seconds")}
          >
            {(attributes) => (
              <NumberInput
                {...attributes}
                min={0}
                value={draft.longestWaitSeconds}
                onChange={(seconds) => change({ longestWaitSeconds: seconds })}
              />
            )}
          </Field>
        </FieldRow>
        <FieldRow>
          <SelectField
            label="Lending of unused CPUs and memory"
            hint="Whether opportunistic jobs may use CPUs and memory that its guaranteed jobs are not expected to use"
            problem={refusal?.explain("overcommit")}
            value={draft.overcommit}
            options={Object.entries(OVERCOMMIT).map(([value, label]) => ({ value, label }))}
            onChange={(event) => change({ overcommit: event.target.value as VirtualCluster["overcommit"] })}
          />
          <Field
            label="Safety margin"
            hint="The part of each node that is not lent, 0 to 0.9"
            problem={refusal?.explain("overcommit_margin")}
          >
            {(attributes) => (
              <NumberInput
                {...attributes}
                min={0}
                max={0.9}
                step="any"
                disabled={draft.overcommit === "never"}
                value={draft.overcommitMargin}
                onChange={(part) => change({ overcommitMargin: part })}
              />
            )}
          </Field>
        </FieldRow>
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="primary" busy={save.isPending || editing.isReading}>
            Save
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

interface Draft {
  name: string;
  title: string;
  policy: ChosenPlugin;
  placer: ChosenPlugin;
  defaultTimeLimitSeconds: number | undefined;
  sharing: VirtualCluster["sharing"];
  minRunSeconds: number | undefined;
  reclaimMinRunSeconds: number | undefined;
  longestWaitSeconds: number | undefined;
  overcommit: VirtualCluster["overcommit"];
  overcommitMargin: number | undefined;
  guaranteed: Record<string, number | undefined>;
  /** Weight by tenant. */
  members: Record<string, number | undefined>;
}

export function draftOf(cluster: VirtualCluster | null): Draft {
  return {
    name: cluster?.name ?? "",
    title: cluster?.title ?? "",
    policy: cluster?.policy_plugin ?? { name: "fifo", parameters: {} },
    placer: cluster?.placer_plugin ?? { name: "consolidate", parameters: {} },
    defaultTimeLimitSeconds: cluster?.default_time_limit_seconds ?? 86_400,
    sharing: cluster?.sharing ?? "measured",
    minRunSeconds: cluster?.min_run_seconds ?? 0,
    reclaimMinRunSeconds: cluster?.reclaim_min_run_seconds ?? 0,
    longestWaitSeconds: cluster?.longest_wait_seconds ?? 21_600,
    overcommit: cluster?.overcommit ?? "never",
    overcommitMargin: cluster?.overcommit_margin ?? 0.1,
    // What is lent or borrowed at present is not its own to change.
    guaranteed: cluster?.own_guaranteed ?? {},
    members: Object.fromEntries((cluster?.members ?? []).map(({ tenant, weight }) => [tenant, weight])),
  };
}

/** How many GPUs may be guaranteed: not those on nodes that a serving pool may ask back. */
function thereAre(model: { gpus: number; serving_gpus: number } | undefined): string {
  const { gpus, serving_gpus } = model ?? { gpus: 0, serving_gpus: 0 };
  const own = `of ${gpus - serving_gpus} in the cluster`;
  return serving_gpus > 0 ? `${own}; ${serving_gpus} more from serving pools, which may recall them` : own;
}

/** The body to send. What is guaranteed of models that are `divided` by cells follows from the cells and is left out. */
export function bodyOf(draft: Draft, divided: readonly string[] = []): Omit<VirtualClusterInputRequest, "name"> {
  const guaranteed = Object.entries(draft.guaranteed).flatMap(([model, gpus]) =>
    gpus && !divided.includes(model) ? [[model, gpus] as const] : [],
  );
  const members = Object.entries(draft.members).flatMap(([tenant, weight]) =>
    weight === undefined ? [] : [{ tenant, weight }],
  );
  return {
    title: draft.title,
    policy_plugin: draft.policy,
    placer_plugin: draft.placer,
    ...(draft.defaultTimeLimitSeconds === undefined
      ? {}
      : { default_time_limit_seconds: draft.defaultTimeLimitSeconds }),
    sharing: draft.sharing,
    min_run_seconds: draft.minRunSeconds ?? 0,
    reclaim_min_run_seconds: draft.reclaimMinRunSeconds ?? 0,
    ...(draft.longestWaitSeconds === undefined ? {} : { longest_wait_seconds: draft.longestWaitSeconds }),
    overcommit: draft.overcommit,
    ...(draft.overcommitMargin === undefined ? {} : { overcommit_margin: draft.overcommitMargin }),
    guaranteed: Object.fromEntries(guaranteed),
    members,
  };
}
