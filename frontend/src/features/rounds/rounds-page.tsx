import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { roundsQuery } from "@/api/queries";
import type { Round } from "@/api/schema";
import { moment } from "@/components/format";
import { RoundBadge } from "@/features/rounds/round-badge";
import { useLiveState } from "@/live/live";
import { Segments } from "@/ui/choice";
import { DataTable, type Column } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { muted, oneLine, PageLayout, Panel } from "@/ui/layout";

export function RoundsPage() {
  const query = useInfiniteQuery(roundsQuery);
  const streamed = useLiveState().round;
  const rounds = useMemo(() => {
    const byNumber = new Map(
      (query.data?.pages ?? []).flatMap((page) => page.results).map((round) => [round.number, round]),
    );
    const newest = Math.max(0, ...byNumber.keys());
    for (const round of streamed.values()) if (round.number > newest) byNumber.set(round.number, round);
    return [...byNumber.values()].sort((a, b) => b.number - a.number);
  }, [query.data, streamed]);
  const [which, setWhich] = useState<"all" | "eventful">("all");
  const shown = which === "all" ? rounds : rounds.filter(isEventful);
  return (
    <PageLayout
      title="Rounds"
      lead="Every few seconds, a round takes a snapshot, decides and applies the plan. Each round is kept and can be replayed."
      actions={
        <Segments
          label="Which rounds"
          value={which}
          onChange={setWhich}
          options={[
            { value: "all", label: "All" },
            { value: "eventful", label: "With changes" },
          ]}
        />
      }
    >
      <Panel flush>
        <DataTable
          label="Rounds"
          rows={shown}
          rowKey={({ number }) => number}
          query={query}
          skeletonLines={10}
          columns={COLUMNS}
          empty={<EmptyState title="No such round yet" />}
          more="Show older rounds"
        />
      </Panel>
    </PageLayout>
  );
}

function isEventful(round: Round): boolean {
  return (
    round.state !== "applied" ||
    round.started + round.stopped + round.dropped.length > 0 ||
    Object.keys(round.degraded).length > 0
  );
}

const COLUMNS: readonly Column<Round>[] = [
  {
    header: "Round",
    isRowHeader: true,
    cell: ({ number }) => (
      <Link to="/rounds/$number" params={{ number: String(number) }}>
        {number}
      </Link>
    ),
  },
  { header: "Started", className: oneLine, cell: (round) => moment(round.started_at) },
  { header: "State", cell: (round) => <RoundBadge round={round} /> },
  { header: "Started jobs", isNumeric: true, cell: ({ started }) => <Count value={started} /> },
  { header: "Kept", isNumeric: true, cell: ({ kept }) => <Count value={kept} /> },
  { header: "Stopped", isNumeric: true, cell: ({ stopped }) => <Count value={stopped} /> },
  { header: "Dropped", isNumeric: true, cell: ({ dropped }) => <Count value={dropped.length} /> },
  { header: "Waiting", isNumeric: true, cell: ({ waiting }) => <Count value={waiting} /> },
  { header: "Took", isNumeric: true, className: oneLine, cell: (round) => `${totalMs(round).toFixed(0)} ms` },
];

/** Zeros recede, so that rounds in which something happened stand out. */
function Count({ value }: { value: number }) {
  return <span className={value === 0 ? muted : undefined}>{value}</span>;
}

function totalMs(round: Round): number {
  const { snapshot, decide, apply } = round.timings_ms;
  return snapshot + decide + apply;
}
