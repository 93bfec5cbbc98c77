import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { roundsQuery } from "@/api/queries";
import type { Round } from "@/api/types";
import { moment } from "@/components/format";
import { ShowMore } from "@/components/show-more";
import { RoundBadge } from "@/features/rounds/round-badge";
import { useLiveState } from "@/live/live";
import { Segments } from "@/ui/choice";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { muted, numeric, oneLine, PageLayout, Panel, TableFrame } from "@/ui/layout";

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
      lead="Every few seconds: one snapshot, one decision, carried out. Each is kept and can be replayed."
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
        {query.isError ? (
          <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
        ) : query.isPending ? (
          <SkeletonLines count={10} />
        ) : shown.length > 0 ? (
          <RoundTable rounds={shown} />
        ) : (
          <EmptyState title="No such round yet" />
        )}
        <ShowMore query={query}>Show older rounds</ShowMore>
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

function RoundTable({ rounds }: { rounds: readonly Round[] }) {
  return (
    <TableFrame label="Rounds">
      <thead>
        <tr>
          <th>Round</th>
          <th>Started</th>
          <th>State</th>
          <th className={numeric}>Started jobs</th>
          <th className={numeric}>Kept</th>
          <th className={numeric}>Stopped</th>
          <th className={numeric}>Dropped</th>
          <th className={numeric}>Waiting</th>
          <th className={numeric}>Took</th>
        </tr>
      </thead>
      <tbody>
        {rounds.map((round) => (
          <tr key={round.number}>
            <td>
              <Link to="/rounds/$number" params={{ number: String(round.number) }}>
                {round.number}
              </Link>
            </td>
            <td className={oneLine}>{moment(round.started_at)}</td>
            <td>
              <RoundBadge round={round} />
            </td>
            <Count value={round.started} />
            <Count value={round.kept} />
            <Count value={round.stopped} />
            <Count value={round.dropped.length} />
            <Count value={round.waiting} />
            <td className={`${numeric} ${oneLine}`}>{totalMs(round).toFixed(0)} ms</td>
          </tr>
        ))}
      </tbody>
    </TableFrame>
  );
}

/** Zeros recede, so that rounds in which something happened stand out. */
function Count({ value }: { value: number }) {
  return <td className={value === 0 ? `${numeric} ${muted}` : numeric}>{value}</td>;
}

function totalMs(round: Round): number {
  const { snapshot, decide, apply } = round.timings_ms;
  return snapshot + decide + apply;
}
