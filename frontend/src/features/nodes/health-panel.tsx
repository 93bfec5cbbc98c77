import { useInfiniteQuery } from "@tanstack/react-query";
import { TriangleAlert } from "lucide-react";

import { eventsQuery } from "@/api/queries";
import type { Node } from "@/api/types";
import { ago, moment } from "@/components/format";
import { useNow } from "@/components/now";
import { ShowMore } from "@/components/show-more";
import { Badge, verdictLook } from "@/components/state-badge";
import { checkTitle, withdrawnText, worstFirst } from "@/features/nodes/health";
import { EmptyState, ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { muted, oneLine, Panel, prose, TableFrame } from "@/ui/layout";

/** Who took the node out of service, why, and when it is back. */
export function WithdrawnNotice({ node }: { node: Node }) {
  const text = withdrawnText(node, useNow());
  return (
    text && (
      <Notice
        tone={node.withdrawn?.by === "health" ? "failed" : "waiting"}
        icon={<TriangleAlert size={16} aria-hidden />}
      >
        {text}
      </Notice>
    )
  );
}

/** What each health check says now, the worst first. */
export function HealthPanel({ node }: { node: Node }) {
  const now = useNow();
  return (
    <Panel title="Health" flush>
      {node.health.length === 0 ? (
        <EmptyState title="Nothing checked yet">The node agent reports what it finds.</EmptyState>
      ) : (
        <TableFrame label="Health checks">
          <thead>
            <tr>
              <th>Check</th>
              <th>Verdict</th>
              <th>Since</th>
              <th>Message</th>
            </tr>
          </thead>
          <tbody>
            {worstFirst(node.health).map((check) => (
              <tr key={check.name}>
                <td className={oneLine}>{checkTitle(check)}</td>
                <td>
                  <Badge look={verdictLook(check.verdict)} />
                </td>
                <td className={`${oneLine} ${muted}`} title={moment(check.since)}>
                  {ago(check.since, now)}
                </td>
                <td className={prose}>{check.message}</td>
              </tr>
            ))}
          </tbody>
        </TableFrame>
      )}
    </Panel>
  );
}

/** When a check's verdict changed, the newest first. */
export function HealthHistory({ name }: { name: string }) {
  const query = useInfiniteQuery(eventsQuery({ node: name, kind: "node.check" }));
  const events = (query.data?.pages ?? []).flatMap(({ results }) => results);
  return (
    <Panel title="Health history" flush>
      {query.isError && <ErrorNotice error={query.error} />}
      {query.isPending ? (
        <SkeletonLines />
      ) : events.length === 0 ? (
        <EmptyState title="No verdict has changed" />
      ) : (
        <TableFrame label="Changes of verdicts">
          <thead>
            <tr>
              <th>Time</th>
              <th>From</th>
              <th>To</th>
              <th>Finding</th>
            </tr>
          </thead>
          <tbody>
            {events.map((event) => (
              <tr key={event.id}>
                <td className={oneLine}>{moment(event.at)}</td>
                <td className={muted}>{event.from || "–"}</td>
                <td>{event.to}</td>
                <td className={prose}>{event.message}</td>
              </tr>
            ))}
          </tbody>
        </TableFrame>
      )}
      <ShowMore query={query} />
    </Panel>
  );
}
