import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";

import { ApiError } from "@/api/client";
import type { Secret } from "@/api/schema";
import { deleteSecret, secretsQuery, setSecret, type SecretOwner } from "@/api/secret-queries";
import { ago } from "@/components/format";
import { useNow } from "@/components/now";
import { Button, IconButton } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { Confirm, Dialog, DialogActions } from "@/ui/dialog";
import { EmptyState, ErrorNotice } from "@/ui/feedback";
import { Field, TextArea, TextInput } from "@/ui/field";
import { Form } from "@/ui/form";
import { oneLine, Panel } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

interface SecretsPanelProps {
  owner: SecretOwner;
  mayChange: boolean;
}

/** The secrets of a tenant, or one's own: names, never values. */
export function SecretsPanel({ owner, mayChange }: SecretsPanelProps) {
  const query = useQuery(secretsQuery(owner));
  const now = useNow();
  const [setting, setSetting] = useState(false);
  const [deleting, setDeleting] = useState<Secret | null>(null);
  return (
    <Panel
      title="Secrets"
      flush
      actions={
        mayChange && (
          <Button icon={<Plus size={14} aria-hidden />} onClick={() => setSetting(true)}>
            Set a secret
          </Button>
        )
      }
    >
      <DataTable
        label="Secrets"
        rows={query.data}
        rowKey={({ name }) => name}
        query={query}
        empty={
          <EmptyState title="No secrets">
            Jobs are given secrets, such as access tokens, by their names. Nobody is shown a value again.
          </EmptyState>
        }
        columns={[
          { header: "Name", isRowHeader: true, cell: ({ name }) => name, sortBy: ({ name }) => name },
          {
            header: "Set",
            cell: (secret) => `${ago(secret.changed_at, now)} by ${secret.changed_by}`,
            sortBy: ({ changed_at: at }) => at,
          },
          {
            header: "Used",
            className: oneLine,
            cell: ({ last_used_at: at }) => (at ? ago(at, now) : "never"),
            sortBy: ({ last_used_at: at }) => at,
          },
          mayChange && {
            header: "Delete",
            isHeaderHidden: true,
            cell: (secret) => (
              <IconButton
                label={`Delete ${secret.name}`}
                icon={<Trash2 size={15} />}
                onClick={() => setDeleting(secret)}
              />
            ),
          },
        ]}
      />
      {setting && <SetSecret owner={owner} onClose={() => setSetting(false)} />}
      {deleting && <DeleteSecret owner={owner} secret={deleting} onClose={() => setDeleting(null)} />}
    </Panel>
  );
}

function SetSecret({ owner, onClose }: { owner: SecretOwner; onClose: () => void }) {
  const queries = useQueryClient();
  const [name, setName] = useState("");
  const [value, setValue] = useState("");
  const set = useMutation({
    mutationFn: () => setSecret(owner, name, value),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: secretsQuery(owner).queryKey });
      onClose();
    },
  });
  const refusal = set.error instanceof ApiError ? set.error : null;
  return (
    <Dialog open onClose={onClose} title="Set a secret" description="It takes the place of the one of that name.">
      <Form onSubmit={() => set.mutate()}>
        {refusal?.fields.length === 0 && <ErrorNotice error={refusal} />}
        <Field label="Name" hint="Such as HF_TOKEN" problem={refusal?.problem("name")}>
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
        <Field label="Value" hint="At most 32 KiB; it is never shown again" problem={refusal?.problem("value")}>
          {(attributes) => (
            <TextArea
              {...attributes}
              autoComplete="off"
              required
              rows={4}
              value={value}
              onChange={(event) => setValue(event.target.value)}
            />
          )}
        </Field>
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="primary" busy={set.isPending}>
            Set
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

function DeleteSecret({ owner, secret, onClose }: { owner: SecretOwner; secret: Secret; onClose: () => void }) {
  const queries = useQueryClient();
  const say = useSay();
  const remove = useMutation({
    mutationFn: () => deleteSecret(owner, secret.name),
    onSuccess: () => queries.invalidateQueries({ queryKey: secretsQuery(owner).queryKey }),
    onError: (error) => say("failed", error.message),
    onSettled: onClose,
  });
  return (
    <Confirm
      open
      onClose={onClose}
      title={`Delete ${secret.name}?`}
      description="Jobs that name it and have not started will fail."
      action="Delete"
      busy={remove.isPending}
      onConfirm={() => remove.mutate()}
    />
  );
}
