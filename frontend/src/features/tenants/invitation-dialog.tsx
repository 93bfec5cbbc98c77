import { useMutation, useQueryClient } from "@tanstack/react-query";

import { invitationsQuery, invite } from "@/api/access-queries";
import type { Role } from "@/api/schema";
import { words } from "@/components/format";
import { ROLES } from "@/components/roles";
import { useSentForm } from "@/components/sent-form";
import { ShownOnce } from "@/components/shown-once";
import { FormDialog, ResultDialog } from "@/ui/dialog";
import { Notice } from "@/ui/feedback";
import { SelectField, TextField } from "@/ui/field";

const ROLE_OPTIONS = ROLES.map((role) => ({ value: role, label: words(role) }));
const DAYS = 7;

interface InvitationDraft {
  email: string;
  role: Role;
  expires_in_days: number | undefined;
}

/** Invites a person to a tenant, and shows the link where it was not mailed. */
export function InvitationDialog({ tenant, onClose }: { tenant: string; onClose: () => void }) {
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
