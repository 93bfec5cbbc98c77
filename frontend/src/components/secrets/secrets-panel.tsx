import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";

import type { Secret } from "@/api/schema";
import { deleteSecret, secretsQuery, type SecretOwner } from "@/api/secret-queries";
import { ago } from "@/components/format";
import { useNow } from "@/components/now";
import { Button, IconButton } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { Confirm } from "@/ui/confirm";
import { EmptyState } from "@/ui/feedback";
import { oneLine, Panel } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";
import { useSay } from "@/ui/toasts";

const SetSecret = onDemand(async () => (await import("@/components/secrets/secret-dialog")).SetSecret);

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
            Secrets, such as access tokens. Jobs use them by name. Values cannot be viewed after saving.
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
      description="Jobs that use it and have not started yet will fail."
      action="Delete"
      busy={remove.isPending}
      onConfirm={() => remove.mutate()}
    />
  );
}
