import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import { nodesQuery } from "@/api/queries";
import type { ClusterEvent } from "@/api/types";
import { moment, words } from "@/components/format";
import { muted, oneLine, prose, TableFrame } from "@/ui/layout";

/** What happened, to what, and who did it. */
export function EventTable({ events }: { events: readonly ClusterEvent[] }) {
  const query = useQuery(nodesQuery);
  const nodes = useMemo(() => new Map((query.data ?? []).map(({ id, name }) => [id, name])), [query.data]);
  return (
    <TableFrame label="Events">
      <thead>
        <tr>
          <th>Time</th>
          <th>What</th>
          <th>Step</th>
          <th>By</th>
          <th>Message</th>
        </tr>
      </thead>
      <tbody>
        {events.map((event) => (
          <tr key={event.id}>
            <td className={oneLine}>{moment(event.at)}</td>
            <td className={oneLine}>
              <Subject event={event} nodes={nodes} />
            </td>
            <td className={oneLine}>{stepOf(event)}</td>
            <td className={`${oneLine} ${muted}`}>{event.actor}</td>
            <td className={prose}>{event.message}</td>
          </tr>
        ))}
      </tbody>
    </TableFrame>
  );
}

/** From state to state, or else what it is called: "node.created" without the node. */
function stepOf({ from, to, kind }: ClusterEvent): string {
  return from && to ? `${from} → ${to}` : words(kind.slice(kind.indexOf(".") + 1));
}

function Subject({ event, nodes }: { event: ClusterEvent; nodes: ReadonlyMap<number, string> }) {
  const node = event.node === null ? undefined : nodes.get(event.node);
  if (event.job !== null) {
    return (
      <>
        <Link to="/jobs/$id" params={{ id: String(event.job) }}>
          Job {event.job}
        </Link>
        {event.subject !== "job" && `, ${event.subject}`}
      </>
    );
  }
  if (node !== undefined) {
    return (
      <Link to="/nodes/$name" params={{ name: node }}>
        {node}
      </Link>
    );
  }
  return <>{words(event.subject)}</>;
}
