import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";

import { invitationsQuery, invite, revokeInvitation } from "@/api/access-queries";
import type { Role } from "@/api/schema";
import { duration, words } from "@/components/format";
import { useNow } from "@/components/now";
import { useSentForm } from "@/components/sent-form";
import { ROLES } from "@/components/roles";
import { ShownOnce } from "@/components/shown-once";
import { Button, IconButton } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { FormDialog, ResultDialog } from "@/ui/dialog";
import { EmptyState, Notice } from "@/ui/feedback";
import { SelectField, TextField } from "@/ui/field";
import { muted, oneLine, Panel } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

const ROLE_OPTIONS = ROLES.map((role) => ({ value: role, label: words(role) }));
const DAYS = 7;

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
      {inviting && <Invite tenant={tenant} onClose={() => setInviting(false)} />}
    </Panel>
  );
}

interface InvitationDraft {
  email: string;
  role: Role;
  expires_in_days: number | undefined;
}

function Invite({ tenant, onClose }: { tenant: string; onClose: () => void }) {
  const queries = useQueryClient();
  const create = useMutation({
    mutationFn: ({ email, role, expires_in_days: days }: InvitationDraft) =>
      invite(tenant, { role, email: email.trim(), expires_in_days: days ?? DAYS }),
    onSuccess: () => queries.invalidateQueries({ queryKey: invitationsQuery(tenant).queryKey }),
  });
  const { sending, field, number } = useSentForm<InvitationDraft>(
    { email: "", role: "member", expires_in_days: DAYS },
    create,
  );
  if (create.data) {
    return (
      <ResultDialog title={`Invitation to ${tenant}`} onClose={onClose}>
        {create.data.link ? (
          <ShownOnce
            secret={create.data.link}
            label="Send this link to the person. It works once, for anyone who has it."
          />
        ) : (
          <Notice>The link was mailed to {create.data.email}.</Notice>
        )}
      </ResultDialog>
    );
  }
  return (
    <FormDialog title={`Invite to ${tenant}`} sending={sending} action="Invite" onClose={onClose}>
      <TextField
        {...field("email")}
        label="E-mail address"
        hint="The link is sent to this address, if this installation sends mail. Empty: you pass on the link."
        autoFocus
        type="email"
      />
      <SelectField {...field("role")} label="Role" options={ROLE_OPTIONS} />
      <TextField {...number("expires_in_days")} label="Expires in days" required min={1} max={30} />
    </FormDialog>
  );
}
