import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Pencil } from "lucide-react";
import { useState } from "react";

import { answerOf, api, ApiError } from "@/api/client";
import { gpuModelsQuery, heldQuery, quotaQuery } from "@/api/queries";
import type { Quota } from "@/api/schema";
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

function QuotaForm({ tenant, quota, onDone }: { tenant: string; quota: Quota; onDone: () => void }) {
  const queries = useQueryClient();
  const models = useQuery(gpuModelsQuery);
  const [draft, setDraft] = useState<Record<string, number | undefined>>(quota.limits);
  const [cpus, setCpus] = useState(quota.cpus ?? undefined);
  const [memory, setMemory] = useState(quota.memory_bytes == null ? undefined : quota.memory_bytes / GIB);
  const names = [
    ...new Set([ALL_MODELS, ...(models.data ?? []).map(({ name }) => name), ...Object.keys(quota.limits)]),
  ];
  const save = useMutation({
    mutationFn: () => {
      const kept = Object.entries(draft).flatMap(([model, gpus]) =>
        gpus === undefined ? [] : [[model, gpus] as const],
      );
      return answerOf(
        api.PUT("/tenants/{name}/quota", {
          params: { path: { name: tenant } },
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
  const refusal = save.error instanceof ApiError ? save.error : null;
  return (
    <Form onSubmit={() => save.mutate()}>
      {refusal && <ErrorNotice error={refusal} />}
      <div className={styles.lines}>
        {names.map((name) => (
          <LimitInput
            key={name}
            label={name === ALL_MODELS ? "All GPUs together" : name}
            value={draft[name]}
            onChange={(gpus) => setDraft({ ...draft, [name]: gpus })}
          />
        ))}
        <LimitInput label="CPUs" value={cpus} onChange={setCpus} step="any" />
        <LimitInput label="Memory in GiB" value={memory} onChange={setMemory} step="any" />
      </div>
      <DialogActions>
        <Button onClick={onDone}>Close</Button>
        <Button type="submit" look="primary" busy={save.isPending}>
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
