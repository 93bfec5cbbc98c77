import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { gpuModelsQuery, tenantsQuery, virtualClustersQuery } from "@/api/queries";
import type { Me, UsageReport, UsageRow } from "@/api/schema";
import { usageAddress, type UsageFilters, usageReportQuery } from "@/api/usage-queries";
import { FileLinks } from "@/components/file-links";
import { choice, DayFilters, Filter } from "@/components/filter";
import { count, moment } from "@/components/format";
import { isAdminAnywhere } from "@/components/roles";
import { useSession } from "@/components/session";
import { UseBar } from "@/components/use-bar";
import { daysOf, type Grouping, GROUPINGS, groupingsOf, PERIODS, periodOf } from "@/features/usage/choices";
import { Segments } from "@/ui/choice";
import { type Column, DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { Select } from "@/ui/field";
import { Facts, muted, PageLayout, Panel, Row } from "@/ui/layout";

const route = getRouteApi("/usage");
/** The most rows that are drawn; the file has all. */
const MOST_ROWS = 500;

/** Who used what in a period, what that cost, and what part of it was wasted. */
export function UsagePage() {
  const me = useSession();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useQuery(usageReportQuery(search));
  const tenants = useQuery(tenantsQuery).data ?? [];
  const clusters = useQuery(virtualClustersQuery).data ?? [];
  const models = useQuery(gpuModelsQuery).data ?? [];
  const choose = (changed: Partial<UsageFilters>) =>
    void navigate({ search: (now) => ({ ...now, ...changed }), replace: true });
  const report = query.data;
  return (
    <PageLayout
      title="Usage"
      lead="GPU-hours used by jobs, their cost at present prices, and the part that was wasted."
      actions={report && report.rows.length > 0 && <FileLinks address={usageAddress(search)} />}
    >
      <Row>
        <Segments
          label="Period"
          value={periodOf(search)}
          options={PERIODS}
          onChange={(period) => choose(daysOf(period, new Date()))}
        />
        <DayFilters days={search} onChange={choose} />
      </Row>
      <Row>
        <Groups me={me} by={groupingsOf(search.by)} onChange={(by) => choose({ by: by.join(",") })} />
        <Filter
          label="Tenant"
          value={search.tenant}
          options={tenants.map(({ name }) => name)}
          onChange={(tenant) => choose({ tenant })}
        />
        <Filter
          label="Virtual cluster"
          value={search.virtual_cluster}
          options={clusters.map(({ name }) => name)}
          onChange={(virtual_cluster) => choose({ virtual_cluster })}
        />
        <Filter
          label="GPU model"
          value={search.gpu_model}
          options={models.map(({ name }) => name)}
          onChange={(gpu_model) => choose({ gpu_model })}
        />
      </Row>
      {report && <Totals report={report} />}
      <Panel flush>
        <DataTable
          label="Usage"
          rows={report?.rows}
          rowKey={(_, index) => index}
          columns={columnsOf(report)}
          query={query}
          limit={MOST_ROWS}
          empty={<EmptyState title="No GPU-hours">No job that you may see had GPUs in this period.</EmptyState>}
        />
      </Panel>
      {report && report.rows.length > MOST_ROWS && (
        <p className={muted}>
          The table shows {count(MOST_ROWS)} of {count(report.rows.length)} rows. The files have all.
        </p>
      )}
    </PageLayout>
  );
}

interface GroupsProps {
  me: Me;
  by: readonly Grouping[];
  onChange: (by: readonly Grouping[]) => void;
}

/** One or two properties by which the rows are grouped. */
function Groups({ me, by: [first, second], onChange }: GroupsProps) {
  // Only admins see what single users used.
  const offered = GROUPINGS.filter(({ value }) => value !== "user" || isAdminAnywhere(me));
  const chosen = (...by: (string | undefined)[]) =>
    onChange([...new Set(by)].filter((name): name is Grouping => Boolean(name)));
  return (
    <>
      <Select
        aria-label="Group by"
        className={choice}
        value={first}
        options={offered.map(({ value, label }) => ({ value, label: `By ${label}` }))}
        onChange={(event) => chosen(event.target.value, second)}
      />
      <Filter
        label="Then by"
        none="none"
        value={second}
        options={offered
          .filter(({ value }) => value !== first)
          .map(({ value, label }) => ({ value, label: `Then by ${label}` }))}
        onChange={(then) => chosen(first, then)}
      />
    </>
  );
}

function Totals({ report: { since, until, total } }: { report: UsageReport }) {
  return (
    <Panel title={`${moment(since)} to ${moment(until)}`}>
      <Facts
        facts={[
          ["Jobs", count(total.jobs)],
          ["GPU-hours", figure(total.gpu_hours)],
          ["On guaranteed GPUs", partText(total.guaranteed_gpu_hours, total.gpu_hours)],
          ["On idle GPUs", partText(total.opportunistic_gpu_hours, total.gpu_hours)],
          ["Wasted", partText(total.wasted_gpu_hours, total.gpu_hours)],
          ["Cost", `${figure(total.cost)} ${total.currency ?? ""}`.trim()],
        ]}
      />
    </Panel>
  );
}

/** "120 (80 %)". */
function partText(hours: number, whole: number): string {
  if (whole <= 0) return figure(hours);
  const percent = (100 * hours) / whole;
  return `${figure(hours)} (${percent > 0 && percent < 0.5 ? "< 1" : Math.round(percent)} %)`;
}

/** "1,234.5"; what is not nothing does not read as 0. */
function figure(amount: number): string {
  return amount > 0 && amount < 0.05 ? "< 0.1" : count(amount);
}

function columnsOf(report: UsageReport | undefined): Column<UsageRow>[] {
  if (!report) return [];
  const { rows, total } = report;
  const hours = (header: string, value: (row: UsageRow) => number, headerTitle?: string): Column<UsageRow> => ({
    header,
    isNumeric: true,
    sortBy: value,
    cell: (row) => figure(value(row)),
    ...(headerTitle && { headerTitle }),
  });
  const columns: Column<UsageRow>[] = groupingsOf(report.by.join(",")).map((name, index) => ({
    header: GROUPINGS.find(({ value }) => value === name)?.header ?? name,
    isRowHeader: index === 0,
    sortBy: (row) => row[name],
    cell: (row) => row[name],
  }));
  columns.push(
    hours("Jobs", ({ jobs }) => jobs),
    {
      header: "GPU-hours",
      sortBy: ({ gpu_hours }) => gpu_hours,
      cell: ({ gpu_hours }) => <UseBar used={gpu_hours} total={total.gpu_hours} words={figure} />,
    },
  );
  if (rows.some(({ entitled_gpu_hours: entitled }) => entitled != null)) {
    columns.push({
      header: "Guarantee used",
      headerTitle: "GPU-hours on guaranteed GPUs, and what the guarantee amounts to in this period for all tenants",
      sortBy: ({ guaranteed_gpu_hours, entitled_gpu_hours }) =>
        entitled_gpu_hours ? guaranteed_gpu_hours / entitled_gpu_hours : null,
      cell: ({ guaranteed_gpu_hours, entitled_gpu_hours }) =>
        entitled_gpu_hours ? <UseBar used={guaranteed_gpu_hours} total={entitled_gpu_hours} words={figure} /> : "–",
    });
  } else {
    columns.push(hours("Guaranteed", (row) => row.guaranteed_gpu_hours, "GPU-hours on guaranteed GPUs"));
  }
  columns.push(
    hours("Idle GPUs", (row) => row.opportunistic_gpu_hours, "GPU-hours on GPUs that their owners did not use"),
    hours(
      "Wasted",
      (row) => row.wasted_gpu_hours,
      "GPU-hours of failed and lost attempts, and of work lost when one was stopped",
    ),
    hours(`Cost${total.currency ? `, ${total.currency}` : ""}`, ({ cost }) => cost),
  );
  return columns;
}
