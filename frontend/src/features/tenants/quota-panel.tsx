import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Pencil } from "lucide-react";
import { useState } from "react";

import { answerOf, api } from "@/api/client";
import { editionQuery } from "@/api/edition";
import { gpuModelsQuery, heldQuery, quotaQuery } from "@/api/queries";
import type { Quota } from "@/api/schema";
import { useDraft, useEdition, useRefusal } from "@/components/edition";
import { bytes, counted } from "@/components/format";
import { useSession } from "@/components/session";
import { UseBar } from "@/components/use-bar";
import { Button, IconButton } from "@/ui/button";
import { DialogActions } from "@/ui/dialog";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { NumberInput } from "@/ui/field";
import { Form } from "@/ui/form";
import { Panel } from "@/ui/layout";
import styles from "@/features/tenants/tenants.module.css";

/** The line that caps all models together. */
const ALL_MODELS = "*";
const GIB = 2 ** 30;

/** The most GPUs, CPUs and memory that the tenant may hold at once, and how much it holds. */
export function QuotaPanel({ tenant }: { tenant: string }) {
  const me = useSession();
  const query = useQuery(quotaQuery(tenant));
  const held = useQuery(heldQuery(tenant)).data;
  const [editing, setEditing] = useState(false);
  const limits = query.data?.limits ?? {};
  const all = Object.values(held?.gpus ?? {}).reduce((sum, gpus) => sum + gpus, 0);
  const { cpus = null, memory_bytes: memory = null } = query.data ?? {};
  const lines = Object.keys(limits).sort();
  return (
    <Panel
      title="Quota"
      actions={
        me.is_operator &&
        !editing &&
        query.data && <IconButton label="Edit the quota" icon={<Pencil size={15} />} onClick={() => setEditing(true)} />
      }
    >
      {query.isError && <ErrorNotice error={query.error} />}
      {query.isPending ? (
        <SkeletonLines count={2} />
      ) : editing && query.data ? (
        <QuotaForm tenant={tenant} quota={query.data} onDone={() => setEditing(false)} />
      ) : lines.length === 0 && cpus === null && memory === null ? (
        <EmptyState title="No limit">
          No quota: only virtual clusters limit the tenant. It holds {counted(all, "GPU")} now.
        </EmptyState>
      ) : (
        <div className={styles.usage}>
          {lines.map((line) => (
            <Line
              key={line}
              name={line === ALL_MODELS ? "All GPUs" : line}
              used={line === ALL_MODELS ? all : (held?.gpus[line] ?? 0)}
              limit={limits[line] ?? 0}
            />
          ))}
          {cpus !== null && <Line name="CPUs" used={held?.cpus ?? 0} limit={cpus} />}
          {memory !== null && <Line name="Memory" used={held?.memory_bytes ?? 0} limit={memory} words={bytes} />}
        </div>
      )}
    </Panel>
  );
}

interface LineProps {
  name: string;
  used: number;
  limit: number;
  words?: (amount: number) => string;
}

function Line({ name, used, limit, words }: LineProps) {
  return (
    <>
      <strong>{name}</strong>
      <UseBar used={used} total={limit} words={words} />
    </>
  );
}

const quotaEdition = (tenant: string) =>
  editionQuery(["quota", tenant], () => api.GET("/tenants/{name}/quota", { params: { path: { name: tenant } } }));

interface Draft {
  limits: Record<string, number | undefined>;
  cpus: number | undefined;
  memory: number | undefined;
}

function draftOf({ limits, cpus, memory_bytes: memory }: Quota): Draft {
  return { limits, cpus: cpus ?? undefined, memory: memory == null ? undefined : memory / GIB };
}

function QuotaForm({ tenant, quota, onDone }: { tenant: string; quota: Quota; onDone: () => void }) {
  const queries = useQueryClient();
  const models = useQuery(gpuModelsQuery);
  const editing = useEdition(quotaEdition(tenant), quota);
  const [{ limits, cpus, memory }, change] = useDraft(draftOf(editing.thing));
  const names = [...new Set([ALL_MODELS, ...(models.data ?? []).map(({ name }) => name), ...Object.keys(limits)])];
  const save = useMutation({
    mutationFn: () => {
      const kept = Object.entries(limits).flatMap(([model, gpus]) =>
        gpus === undefined ? [] : [[model, gpus] as const],
      );
      return answerOf(
        api.PUT("/tenants/{name}/quota", {
          params: { path: { name: tenant }, header: editing.edition },
          body: {
            limits: Object.fromEntries(kept),
            cpus: cpus ?? null,
            memory_bytes: memory === undefined ? null : Math.round(memory * GIB),
          },
        }),
      );
    },
    onSuccess: (saved) => {
      queries.setQueryData(quotaQuery(tenant).queryKey, saved);
      onDone();
    },
  });
  const { notice, onReload } = useRefusal(save, editing);
  return (
    <Form onSubmit={() => save.mutate()} notice={notice} onReload={onReload}>
      <div className={styles.lines}>
        {names.map((name) => (
          <LimitInput
            key={name}
            label={name === ALL_MODELS ? "All GPUs together" : name}
            value={limits[name]}
            onChange={(gpus) => change({ limits: { ...limits, [name]: gpus } })}
          />
        ))}
        <LimitInput label="CPUs" value={cpus} onChange={(most) => change({ cpus: most })} step="any" />
        <LimitInput label="Memory in GiB" value={memory} onChange={(most) => change({ memory: most })} step="any" />
      </div>
      <DialogActions>
        <Button onClick={onDone}>Close</Button>
        <Button type="submit" look="primary" busy={save.isPending || editing.isReading}>
          Save
        </Button>
      </DialogActions>
    </Form>
  );
}

interface LimitInputProps {
  label: string;
  value: number | undefined;
  onChange: (value: number | undefined) => void;
  step?: string;
}

/** A limit, or none where it is empty. */
function LimitInput({ label, value, onChange, step }: LimitInputProps) {
  return (
    <label className={styles.line}>
      <span>
        {label} {value === undefined && <small>no limit</small>}
      </span>
      <NumberInput min={0} step={step} value={value} placeholder="no limit" onChange={onChange} />
    </label>
  );
}
