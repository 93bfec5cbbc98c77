import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Pencil } from "lucide-react";
import { useState } from "react";

import { answerOf, api, ApiError } from "@/api/client";
import { gpuModelsQuery, quotaQuery } from "@/api/queries";
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

interface QuotaPanelProps {
  tenant: string;
  /** GPUs held now, by model. */
  held: ReadonlyMap<string, number>;
}

/** The most GPUs that the tenant may hold at once, and how many it holds. */
export function QuotaPanel({ tenant, held }: QuotaPanelProps) {
  const me = useSession();
  const query = useQuery(quotaQuery(tenant));
  const [editing, setEditing] = useState(false);
  const limits = query.data?.limits ?? {};
  const all = [...held.values()].reduce((sum, gpus) => sum + gpus, 0);
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
      ) : editing ? (
        <QuotaForm tenant={tenant} limits={limits} onDone={() => setEditing(false)} />
      ) : lines.length === 0 ? (
        <EmptyState title="No limit">No quota: only virtual clusters limit the tenant. It holds {all} now.</EmptyState>
      ) : (
        <div className={styles.usage}>
          {lines.map((line) => (
            <Line
              key={line}
              name={line === ALL_MODELS ? "All GPUs" : line}
              used={line === ALL_MODELS ? all : (held.get(line) ?? 0)}
              limit={limits[line] ?? 0}
            />
          ))}
        </div>
      )}
    </Panel>
  );
}

function Line({ name, used, limit }: { name: string; used: number; limit: number }) {
  return (
    <>
      <strong>{name}</strong>
      <UseBar used={used} total={limit} />
    </>
  );
}

function QuotaForm({ tenant, limits, onDone }: { tenant: string; limits: Record<string, number>; onDone: () => void }) {
  const queries = useQueryClient();
  const models = useQuery(gpuModelsQuery);
  const [draft, setDraft] = useState<Record<string, number | undefined>>(limits);
  const names = [...new Set([ALL_MODELS, ...(models.data ?? []).map(({ name }) => name), ...Object.keys(limits)])];
  const save = useMutation({
    mutationFn: () => {
      const kept = Object.entries(draft).flatMap(([model, gpus]) =>
        gpus === undefined ? [] : [[model, gpus] as const],
      );
      return answerOf(
        api.PUT("/tenants/{name}/quota", {
          params: { path: { name: tenant } },
          body: { limits: Object.fromEntries(kept) },
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
          <label key={name} className={styles.line}>
            <span>
              {name === ALL_MODELS ? "All GPUs together" : name} {draft[name] === undefined && <small>no limit</small>}
            </span>
            <NumberInput
              min={0}
              value={draft[name]}
              placeholder="no limit"
              onChange={(gpus) => setDraft({ ...draft, [name]: gpus })}
            />
          </label>
        ))}
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
