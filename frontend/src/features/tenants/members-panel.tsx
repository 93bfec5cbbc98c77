import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Pencil, Trash2 } from "lucide-react";
import { useState } from "react";

import { answerOf, api } from "@/api/client";
import { userLimitsQuery } from "@/api/limit-queries";
import { membersQuery } from "@/api/queries";
import type { Role } from "@/api/schema";
import { useCurrency } from "@/components/currency";
import { words } from "@/components/format";
import { limitsText } from "@/components/limits-text";
import { isAdminOf, ROLES } from "@/components/roles";
import { useSession } from "@/components/session";
import { Button, IconButton } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { Confirm } from "@/ui/confirm";
import { EmptyState } from "@/ui/feedback";
import { Select, TextInput } from "@/ui/field";
import { Form } from "@/ui/form";
import { muted, Panel } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";
import { useSay } from "@/ui/toasts";
import styles from "@/features/tenants/tenants.module.css";

const LimitsDialog = onDemand(async () => (await import("@/features/tenants/limits-dialog")).LimitsDialog);

const ROLE_OPTIONS = ROLES.map((role) => ({ value: role, label: words(role) }));

/** Who belongs to the tenant; its admins change it. */
export function MembersPanel({ tenant }: { tenant: string }) {
  const me = useSession();
  const say = useSay();
  const queries = useQueryClient();
  const query = useQuery(membersQuery(tenant));
  const [leaving, setLeaving] = useState<string | null>(null);
  const limits = useQuery(userLimitsQuery(tenant)).data;
  const limitsOf = (username: string) => limits?.find((each) => each.username === username);
  const [limiting, setLimiting] = useState<string | null>(null);
  const currency = useCurrency();
  const mayChange = isAdminOf(me, tenant);
  const refresh = () => queries.invalidateQueries({ queryKey: membersQuery(tenant).queryKey });
  const set = useMutation({
    mutationFn: ({ username, role }: { username: string; role: Role }) =>
      answerOf(
        api.PUT("/tenants/{name}/members/{username}", { params: { path: { name: tenant, username } }, body: { role } }),
      ),
    onSuccess: (member) => {
      say("done", `${member.username} is ${member.role} of ${tenant}.`);
      return refresh();
    },
    onError: (error) => say("failed", error.message),
  });
  const remove = useMutation({
    mutationFn: (username: string) =>
      answerOf(api.DELETE("/tenants/{name}/members/{username}", { params: { path: { name: tenant, username } } })),
    onSuccess: refresh,
    onError: (error) => say("failed", error.message),
    onSettled: () => setLeaving(null),
  });
  return (
    <Panel title="Members" flush>
      <DataTable
        label="Members"
        rows={query.data}
        rowKey={({ username }) => username}
        query={query}
        empty={<EmptyState title="No members yet" />}
        columns={[
          {
            header: "User",
            isRowHeader: true,
            sortBy: ({ username }) => username,
            cell: ({ username, email }) => (
              <>
                {username} <span className={muted}>{email}</span>
              </>
            ),
          },
          {
            header: "Role",
            sortBy: ({ role }) => role,
            cell: ({ username, role }) =>
              mayChange ? (
                <Select
                  aria-label={`Role of ${username}`}
                  className={styles.role}
                  value={role}
                  options={ROLE_OPTIONS}
                  onChange={(event) => set.mutate({ username, role: event.target.value as Role })}
                />
              ) : (
                words(role)
              ),
          },
          {
            header: "Limits",
            cell: ({ username }) => {
              const text = limitsText(limitsOf(username) ?? { quota: null, budget: null }, currency);
              return (
                <>
                  {text || <span className={muted}>{mayChange || username === me.user.username ? "none" : ""}</span>}{" "}
                  {mayChange && (
                    <IconButton
                      label={`Edit the limits of ${username}`}
                      icon={<Pencil size={15} />}
                      onClick={() => setLimiting(username)}
                    />
                  )}
                </>
              );
            },
          },
          {
            header: "Remove",
            isHeaderHidden: true,
            cell: ({ username }) =>
              (mayChange || username === me.user.username) && (
                <IconButton
                  label={`Remove ${username}`}
                  icon={<Trash2 size={15} />}
                  onClick={() => setLeaving(username)}
                />
              ),
          },
        ]}
      />
      {me.is_operator && <AddMember busy={set.isPending} onAdd={(username, role) => set.mutate({ username, role })} />}
      {limiting !== null && limits && (
        <LimitsDialog
          tenant={tenant}
          username={limiting}
          limits={limitsOf(limiting)}
          onClose={() => setLimiting(null)}
        />
      )}
      <Confirm
        open={leaving !== null}
        onClose={() => setLeaving(null)}
        title={`Remove ${leaving ?? ""} from ${tenant}?`}
        description="Submitted jobs continue; the person no longer sees them."
        action="Remove"
        busy={remove.isPending}
        onConfirm={() => leaving && remove.mutate(leaving)}
      />
    </Panel>
  );
}

function AddMember({ busy, onAdd }: { busy: boolean; onAdd: (username: string, role: Role) => void }) {
  const [username, setUsername] = useState("");
  const [role, setRole] = useState<Role>("member");
  const submit = () => {
    onAdd(username.trim(), role);
    setUsername("");
  };
  return (
    <Form className={styles.foot} onSubmit={submit}>
      <TextInput
        aria-label="User name"
        placeholder="User name"
        required
        value={username}
        onChange={(event) => setUsername(event.target.value)}
      />
      <Select
        aria-label="Role"
        className={styles.role}
        value={role}
        options={ROLE_OPTIONS}
        onChange={(event) => setRole(event.target.value as Role)}
      />
      <Button type="submit" busy={busy}>
        Add
      </Button>
    </Form>
  );
}
