import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";

import { invitationsQuery, revokeInvitation } from "@/api/access-queries";
import { duration, words } from "@/components/format";
import { useNow } from "@/components/now";
import { Button, IconButton } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { muted, oneLine, Panel } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";
import { useSay } from "@/ui/toasts";

const InvitationDialog = onDemand(async () => (await import("@/features/tenants/invitation-dialog")).InvitationDialog);

/** Open invitations into a tenant, for its admins. */
export function InvitationsPanel({ tenant }: { tenant: string }) {
  const say = useSay();
  const now = useNow();
  const queries = useQueryClient();
  const query = useQuery(invitationsQuery(tenant));
  const [inviting, setInviting] = useState(false);
  const revoke = useMutation({
    mutationFn: (key: string) => revokeInvitation(tenant, key),
    onError: (error) => say("failed", error.message),
    onSettled: () => queries.invalidateQueries({ queryKey: invitationsQuery(tenant).queryKey }),
  });
  return (
    <Panel
      title="Invitations"
      flush
      actions={
        <Button icon={<Plus size={14} aria-hidden />} onClick={() => setInviting(true)}>
          Invite
        </Button>
      }
    >
      <DataTable
        label="Invitations"
        rows={query.data}
        rowKey={({ key }) => key}
        query={query}
        empty={
          <EmptyState title="No open invitations">
            People join by accepting, with an existing or a new account.
          </EmptyState>
        }
        columns={[
          {
            header: "For",
            isRowHeader: true,
            sortBy: ({ email }) => email || null,
            cell: ({ email, mailed, invited_by: by }) => (
              <>
                {email || "Anyone with the link"}
                <p className={muted}>
                  by {by}, {mailed ? "mailed" : "link to hand over"}
                </p>
              </>
            ),
          },
          { header: "Role", sortBy: ({ role }) => role, cell: ({ role }) => words(role) },
          {
            header: "Expires",
            className: oneLine,
            sortBy: ({ expires_at: end }) => end,
            cell: ({ expires_at: end }) =>
              Date.parse(end) > now ? `in ${duration((Date.parse(end) - now) / 1000)}` : "expired",
          },
          {
            header: "Revoke",
            isHeaderHidden: true,
            cell: ({ key, email }) => (
              <IconButton
                label={`Revoke the invitation ${email || key}`}
                icon={<Trash2 size={15} />}
                onClick={() => revoke.mutate(key)}
              />
            ),
          },
        ]}
      />
      {inviting && <InvitationDialog tenant={tenant} onClose={() => setInviting(false)} />}
    </Panel>
  );
}
