import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";

import { ApiError, newIdempotencyKey, request } from "@/api/client";
import { tokensQuery } from "@/api/queries";
import type { NewToken, Token } from "@/api/types";
import { ago, moment } from "@/components/format";
import { useNow } from "@/components/now";
import { ShownOnce } from "@/components/shown-once";
import { Tag } from "@/components/state-badge";
import { Button, IconButton } from "@/ui/button";
import { Confirm, Dialog, DialogActions } from "@/ui/dialog";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { Checkbox, Field, NumberInput, TextInput } from "@/ui/field";
import { Form } from "@/ui/form";
import { oneLine, Panel, TableFrame } from "@/ui/layout";
import { useSay } from "@/ui/toasts";
import styles from "@/features/account/account.module.css";

/** One's own API tokens. */
export function TokensPanel() {
  const query = useQuery(tokensQuery);
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  return (
    <Panel
      title="API tokens"
      flush
      actions={
        <Button icon={<Plus size={14} aria-hidden />} onClick={() => setCreating(true)}>
          New token
        </Button>
      }
    >
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? (
        <SkeletonLines />
      ) : query.data?.length ? (
        <TokenTable tokens={query.data} onRevoke={setRevoking} />
      ) : (
        <EmptyState title="No tokens">A token lets the allot command and your scripts act as you.</EmptyState>
      )}
      {creating && <CreateToken onClose={() => setCreating(false)} />}
      {revoking && <RevokeToken token={revoking} onClose={() => setRevoking(null)} />}
    </Panel>
  );
}

function TokenTable({ tokens, onRevoke }: { tokens: readonly Token[]; onRevoke: (token: Token) => void }) {
  const now = useNow();
  return (
    <TableFrame label="API tokens">
      <thead>
        <tr>
          <th>Name</th>
          <th>Used</th>
          <th>Expires</th>
          <th>
            <span className="visually-hidden">Revoke</span>
          </th>
        </tr>
      </thead>
      <tbody>
        {tokens.map((token) => (
          <tr key={token.key}>
            <td>
              {token.name} {token.read_only && <Tag>read only</Tag>}
              <p className={styles.key}>{token.key}</p>
            </td>
            <td className={oneLine}>{token.last_used_at ? ago(token.last_used_at, now) : "never"}</td>
            <td className={oneLine}>{token.expires_at ? moment(token.expires_at) : "never"}</td>
            <td>
              <IconButton label={`Revoke ${token.name}`} icon={<Trash2 size={15} />} onClick={() => onRevoke(token)} />
            </td>
          </tr>
        ))}
      </tbody>
    </TableFrame>
  );
}

function CreateToken({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [days, setDays] = useState<number | undefined>(90);
  const [readOnly, setReadOnly] = useState(false);
  const create = useMutation({
    mutationFn: () =>
      request<NewToken>("POST", "/tokens", {
        body: { name, read_only: readOnly, ...(days === undefined ? {} : { expires_in_days: days }) },
        idempotencyKey: newIdempotencyKey(),
      }),
    onSuccess: () => void queries.invalidateQueries({ queryKey: tokensQuery.queryKey }),
  });
  const refusal = create.error instanceof ApiError ? create.error : null;
  if (create.data?.token) {
    return (
      <Dialog open onClose={onClose} title={`Token ${create.data.name}`}>
        <ShownOnce secret={create.data.token} label="Whoever has it acts as you." />
        <DialogActions>
          <Button look="primary" onClick={onClose}>
            Done
          </Button>
        </DialogActions>
      </Dialog>
    );
  }
  return (
    <Dialog open onClose={onClose} title="New token">
      <Form onSubmit={() => create.mutate()}>
        {refusal?.fields.length === 0 && <ErrorNotice error={refusal} />}
        <Field label="Name" hint="What it is for" problem={refusal?.problem("name")}>
          {(attributes) => (
            <TextInput
              {...attributes}
              autoFocus
              required
              value={name}
              onChange={(event) => setName(event.target.value)}
            />
          )}
        </Field>
        <Field label="Expires in days" hint="Empty: never" problem={refusal?.problem("expires_in_days")}>
          {(attributes) => <NumberInput {...attributes} min={1} max={3650} value={days} onChange={setDays} />}
        </Field>
        <Checkbox label="May only read" checked={readOnly} onChange={(event) => setReadOnly(event.target.checked)} />
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="primary" busy={create.isPending}>
            Create
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

function RevokeToken({ token, onClose }: { token: Token; onClose: () => void }) {
  const queries = useQueryClient();
  const say = useSay();
  const revoke = useMutation({
    mutationFn: () => request<undefined>("DELETE", `/tokens/${token.key}`),
    onSuccess: () => queries.invalidateQueries({ queryKey: tokensQuery.queryKey }),
    onError: (error) => say("failed", error.message),
    onSettled: onClose,
  });
  return (
    <Confirm
      open
      onClose={onClose}
      title={`Revoke ${token.name}?`}
      description="Whatever uses it is refused from then on."
      action="Revoke"
      busy={revoke.isPending}
      onConfirm={() => revoke.mutate()}
    />
  );
}
