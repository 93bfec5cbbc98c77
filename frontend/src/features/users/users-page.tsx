import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { UserCheck, UserX } from "lucide-react";
import { useState } from "react";

import { reactivateUser, type UserFilters, usersQuery } from "@/api/access-queries";
import { tenantsQuery } from "@/api/queries";
import type { User } from "@/api/schema";
import { Filter, TypedSearch } from "@/components/filter";
import { ago, moment, words } from "@/components/format";
import { useNow } from "@/components/now";
import { useSession } from "@/components/session";
import { Tag } from "@/components/state-badge";
import { Deactivate } from "@/features/users/deactivate";
import { IconButton } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { muted, oneLine, PageLayout, Panel, Row } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

const route = getRouteApi("/users");
const STATES = [
  { value: "active", label: "Active" },
  { value: "inactive", label: "Deactivated" },
];

/** All users, for operators: who is where, who was seen when, and who can sign in. */
export function UsersPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const me = useSession();
  const now = useNow();
  const say = useSay();
  const queries = useQueryClient();
  const query = useInfiniteQuery(usersQuery(search));
  const tenants = useQuery(tenantsQuery);
  const [leaving, setLeaving] = useState<User | null>(null);
  const users = query.data?.pages.flatMap((page) => page.results) ?? [];
  const isFiltered = Object.values(search).some(Boolean);
  const choose = (changed: UserFilters) =>
    void navigate({ search: (before) => ({ ...before, ...changed }), replace: true });
  const reactivate = useMutation({
    mutationFn: (user: User) => reactivateUser(user.username),
    onSuccess: ({ username }) => say("done", `${username} can sign in again. Held jobs stay held.`),
    onError: (error) => say("failed", error.message),
    onSettled: () => queries.invalidateQueries({ queryKey: ["users"] }),
  });
  return (
    <PageLayout title="Users" lead="Accounts, newest first. Admins of tenants invite people.">
      <Row>
        <TypedSearch
          label="Name or e-mail address"
          value={search.q ?? ""}
          onChange={(q) => choose({ q: q || undefined })}
        />
        <Filter
          label="Tenant"
          value={search.tenant}
          options={tenants.data?.map(({ name }) => name) ?? []}
          onChange={(tenant) => choose({ tenant: tenant || undefined })}
        />
        <Filter
          label="State"
          value={search.state}
          options={STATES}
          onChange={(state) => choose({ state: state || undefined })}
        />
      </Row>
      <Panel flush>
        <DataTable
          label="Users"
          rows={users}
          rowKey={({ username }) => username}
          query={query}
          empty={<EmptyState title={isFiltered ? "No such users" : "No users"} />}
          columns={[
            {
              header: "User",
              isRowHeader: true,
              cell: ({ username, email }) => (
                <>
                  {username}
                  {email && <p className={muted}>{email}</p>}
                </>
              ),
            },
            {
              header: "Tenants",
              cell: (user) => <Tenants user={user} />,
            },
            {
              header: "Last seen",
              className: oneLine,
              attributes: ({ last_seen_at: at }) => ({ title: at ? moment(at) : undefined }),
              cell: ({ last_seen_at: at }) => (at ? ago(at, now) : "never"),
            },
            { header: "State", cell: ({ is_active: isActive }) => (isActive ? "Active" : <Tag>Deactivated</Tag>) },
            {
              header: "Change",
              isHeaderHidden: true,
              cell: (user) =>
                user.is_active ? (
                  user.username !== me.user.username && (
                    <IconButton
                      label={`Deactivate ${user.username}`}
                      icon={<UserX size={15} />}
                      onClick={() => setLeaving(user)}
                    />
                  )
                ) : (
                  <IconButton
                    label={`Reactivate ${user.username}`}
                    icon={<UserCheck size={15} />}
                    onClick={() => reactivate.mutate(user)}
                  />
                ),
            },
          ]}
        />
      </Panel>
      {leaving && <Deactivate user={leaving} onClose={() => setLeaving(null)} />}
    </PageLayout>
  );
}

function Tenants({ user }: { user: User }) {
  if (user.tenants.length === 0) return user.is_operator ? "Operator" : <span className={muted}>none</span>;
  return (
    <>
      {user.tenants.map(({ name, role }) => (
        <p key={name}>
          <Link to="/tenants/$name" params={{ name }}>
            {name}
          </Link>{" "}
          <span className={muted}>{words(role)}</span>
        </p>
      ))}
      {user.is_operator && <p>Operator</p>}
    </>
  );
}
