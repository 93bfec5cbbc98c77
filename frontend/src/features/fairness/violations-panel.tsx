import { useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { violationsQuery } from "@/api/ledger-queries";
import type { Violation } from "@/api/ledger-types";
import { duration, gpuHours, moment, secondsBetween, words } from "@/components/format";
import { useNow } from "@/components/now";
import { useSession } from "@/components/session";
import { ShowMore } from "@/components/show-more";
import { Tag } from "@/components/state-badge";
import { percent } from "@/features/fairness/words";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { muted, numeric, oneLine, Panel, prose, TableFrame } from "@/ui/layout";

/** When somebody had less here than it would have had alone, by how much, and why. */
export function ViolationsPanel({ name }: { name: string }) {
  const me = useSession();
  const query = useInfiniteQuery(violationsQuery(name));
  const violations = query.data?.pages.flatMap((page) => page.results) ?? [];
  return (
    <Panel title="Violations of the sharing incentive" flush>
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines />}
      {query.data && violations.length === 0 && <EmptyState title="Nobody had less here than alone" />}
      {violations.length > 0 && (
        <TableFrame label="Violations">
          <thead>
            <tr>
              <th>Tenant</th>
              <th>Began</th>
              <th className={numeric}>For</th>
              <th className={numeric}>Had at worst</th>
              <th className={numeric}>Lost</th>
              <th>Cause</th>
              {me.is_operator && <th>Round</th>}
            </tr>
          </thead>
          <tbody>
            {violations.map((violation) => (
              <Row key={violation.id} violation={violation} showRound={me.is_operator} />
            ))}
          </tbody>
        </TableFrame>
      )}
      <ShowMore query={query}>Show older violations</ShowMore>
    </Panel>
  );
}

function Row({ violation, showRound }: { violation: Violation; showRound: boolean }) {
  const now = useNow();
  const { began_at: began, ended_at: ended, round_number: round } = violation;
  return (
    <tr>
      <th scope="row">{violation.tenant}</th>
      <td className={oneLine}>
        {moment(began)} {ended === null && <Tag>open</Tag>}
      </td>
      <td className={`${numeric} ${oneLine}`}>{duration(secondsBetween(began, ended, now) ?? 0)}</td>
      <td className={numeric} title="Of what it would have had alone">
        {percent(violation.worst)}
      </td>
      <td className={`${numeric} ${oneLine}`}>{gpuHours(violation.lost_gpu_seconds)}</td>
      <td className={prose}>
        <strong>{words(violation.cause)}</strong>
        {violation.message && <p className={muted}>{violation.message}</p>}
      </td>
      {showRound && (
        <td>
          <Link to="/rounds/$number" params={{ number: String(round) }}>
            {round}
          </Link>
        </td>
      )}
    </tr>
  );
}
