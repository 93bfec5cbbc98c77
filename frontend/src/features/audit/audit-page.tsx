import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Download } from "lucide-react";

import { auditAddress, type AuditFilters, auditQuery, auditStatusQuery } from "@/api/audit-queries";
import type { AuditStatus } from "@/api/schema";
import { DayFilters, Filter, TypedSearch } from "@/components/filter";
import { count, moment } from "@/components/format";
import { useSession } from "@/components/session";
import styles from "@/features/audit/audit.module.css";
import { AuditEntries } from "@/features/audit/entry-list";
import { Button, buttonClass } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { EmptyState, ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { PageLayout, Panel, prose, Row } from "@/ui/layout";
import { ShowMore } from "@/ui/show-more";

const route = getRouteApi("/audit");
const KINDS = [
  { value: "user", label: "People, signed in" },
  { value: "token", label: "API tokens" },
  { value: "node", label: "Nodes" },
  { value: "system", label: "The platform itself" },
  { value: "database", label: "SQL by hand" },
  { value: "nobody", label: "Not signed in" },
];
const OUTCOMES = [
  { value: "done", label: "Done" },
  { value: "refused", label: "Refused" },
];
const TYPED = [
  ["who", "Who"],
  ["action", "Action"],
  ["object", "Kind of thing"],
  ["subject", "Name or id"],
  ["address", "Address or network"],
] as const;

/** Who changed, read or was refused what: for operators, and for admins about their own tenants. */
export function AuditPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const me = useSession();
  const query = useInfiniteQuery(auditQuery(search));
  const status = useQuery({ ...auditStatusQuery, enabled: me.is_operator });
  const entries = query.data?.pages.flatMap((page) => page.results) ?? [];
  const tenants = me.tenants.filter(({ role }) => role === "admin").map(({ name }) => name);
  const isFiltered = Object.values(search).some(Boolean);
  const choose = (changed: Partial<AuditFilters>) =>
    void navigate({ search: (now) => ({ ...now, ...changed }), replace: true });
  return (
    <PageLayout
      title="Audit log"
      lead={
        me.is_operator
          ? "Changes, reads and refusals, with person and address. Entries cannot be changed."
          : "Changes in your tenants, with person and address. Entries cannot be changed."
      }
      actions={
        entries.length > 0 && (
          <a className={buttonClass()} href={auditAddress(search)} download>
            <Download size={15} aria-hidden />
            JSON lines
          </a>
        )
      }
    >
      {status.data && <Forwarding status={status.data} />}
      <Row>
        {TYPED.map(([name, label]) => (
          <div key={name} className={styles.typed}>
            <TypedSearch
              label={label}
              value={search[name] ?? ""}
              onChange={(typed) => choose({ [name]: typed.trim() })}
            />
          </div>
        ))}
        <Filter label="Tenant" value={search.tenant} options={tenants} onChange={(tenant) => choose({ tenant })} />
        <Filter label="Done by" value={search.kind} options={KINDS} onChange={(kind) => choose({ kind })} />
        <Filter label="Outcome" value={search.outcome} options={OUTCOMES} onChange={(outcome) => choose({ outcome })} />
        <DayFilters days={search} onChange={choose} />
      </Row>
      <Panel flush>
        {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
        {query.isPending ? (
          <SkeletonLines count={10} />
        ) : entries.length > 0 ? (
          <AuditEntries entries={entries} />
        ) : (
          !query.isError && (
            <EmptyState
              title={isFiltered ? "No entry matches" : "Nothing yet"}
              action={isFiltered && <Button onClick={() => void navigate({ search: {} })}>Clear the filters</Button>}
            />
          )
        )}
        <ShowMore query={query}>Show older entries</ShowMore>
      </Panel>
    </PageLayout>
  );
}

/** Where the log goes, and what is wrong with that. */
function Forwarding({ status }: { status: AuditStatus }) {
  return (
    <>
      {!status.is_complete && (
        <Notice tone="failed">
          The database does not record all changes: run manage.py migrate, which creates its triggers again.
        </Notice>
      )}
      {status.receivers.length > 0 && (
        <Panel title="Forwarded to" flush>
          <DataTable
            label="Receivers"
            rows={status.receivers}
            rowKey={({ address }) => address}
            columns={[
              { header: "Address", isRowHeader: true, cell: ({ address }) => address },
              { header: "Last sent", cell: ({ sent_at: at }) => (at ? moment(at) : "never") },
              { header: "Still to send", isNumeric: true, cell: ({ behind }) => count(behind) },
              {
                header: "Problem",
                className: prose,
                cell: ({ problem, failing_since: since, failures }) =>
                  problem && `${problem} (since ${moment(since)}, ${failures} tries)`,
              },
            ]}
          />
        </Panel>
      )}
    </>
  );
}
