import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { violationsQuery } from "@/api/ledger-queries";
import type { Violation } from "@/api/schema";
import { duration, gpuHours, moment, secondsBetween, words } from "@/components/format";
import { useNow } from "@/components/now";
import { useSession } from "@/components/session";
import { Tag } from "@/components/state-badge";
import { percent } from "@/features/fairness/words";
import { DataTable, type Column } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { muted, oneLine, Panel, prose } from "@/ui/layout";

const COLUMNS: readonly Column<Violation>[] = [
  { header: "Tenant", isRowHeader: true, cell: ({ tenant }) => tenant },
  {
    header: "Began",
    className: oneLine,
    cell: (violation) => (
      <>
        {moment(violation.began_at)} {violation.ended_at === null && <Tag>open</Tag>}
      </>
    ),
  },
  { header: "For", isNumeric: true, className: oneLine, cell: (violation) => <Duration violation={violation} /> },
  {
    header: "Worst gain",
    isNumeric: true,
    attributes: () => ({ title: "Relative to a private cluster" }),
    cell: ({ worst }) => percent(worst),
  },
  { header: "Lost", isNumeric: true, className: oneLine, cell: (violation) => gpuHours(violation.lost_gpu_seconds) },
  {
    header: "Cause",
    className: prose,
    cell: ({ cause, message }) => (
      <>
        <strong>{words(cause)}</strong>
        {message && <p className={muted}>{message}</p>}
      </>
    ),
  },
];
/** For operators, who may see rounds. */
const ROUND: Column<Violation> = {
  header: "Round",
  cell: ({ round_number: round }) => (
    <Link to="/rounds/$number" params={{ number: String(round) }}>
      {round}
    </Link>
  ),
};

/** When somebody had less here than it would have had alone, by how much, and why. */
export function ViolationsPanel({ name }: { name: string }) {
  const me = useSession();
  const query = useInfiniteQuery(violationsQuery(name));
  const violations = query.data?.pages.flatMap((page) => page.results) ?? [];
  return (
    <Panel title="Violations of the sharing incentive" flush>
      <DataTable
        label="Violations"
        rows={violations}
        rowKey={({ id }) => id}
        query={query}
        empty={<EmptyState title="No tenant was worse off than in a private cluster" />}
        more="Show older violations"
        columns={[...COLUMNS, me.is_operator && ROUND]}
      />
    </Panel>
  );
}

function Duration({ violation: { began_at: began, ended_at: ended } }: { violation: Violation }) {
  return <>{duration(secondsBetween(began, ended, useNow()) ?? 0)}</>;
}
