import { Link } from "@tanstack/react-router";
import { useMemo } from "react";

import type { Event as ClusterEvent } from "@/api/schema";
import { actorText, eventRows } from "@/components/event-rows";
import { inLocalTime, moment, visible, words } from "@/components/format";
import { DataTable, type DataTableProps } from "@/ui/data-table";
import { muted, oneLine, prose } from "@/ui/layout";

interface EventTableProps extends Pick<DataTableProps<ClusterEvent>, "query" | "empty" | "more" | "skeletonLines"> {
  events: readonly ClusterEvent[] | undefined;
}

/** Changes of jobs, nodes and virtual clusters, with their causes. */
export function EventTable({ events, ...rest }: EventTableProps) {
  const rows = useMemo(() => events && eventRows(events), [events]);
  return (
    <DataTable
      label="Events"
      rows={rows}
      rowKey={({ event }) => event.id}
      columns={[
        { header: "Time", className: oneLine, cell: ({ event }) => moment(event.at) },
        { header: "What", className: oneLine, cell: ({ event }) => <Subject event={event} /> },
        {
          header: "Step",
          className: oneLine,
          cell: ({ event, attempt }) => (
            <span title={attempt ? `Its attempt: ${stepOf(attempt)}` : undefined}>{stepOf(event)}</span>
          ),
        },
        { header: "By", className: `${oneLine} ${muted}`, cell: ({ event }) => actorText(event.actor) },
        { header: "Message", className: prose, cell: ({ event, attempt }) => messageOf(event, attempt) },
      ]}
      {...rest}
    />
  );
}

function messageOf(event: ClusterEvent, attempt: ClusterEvent | null): string {
  return visible(inLocalTime(event.message || attempt?.message || "", event.at));
}

/** From state to state, or else what it is called: "node.created" without the node. */
function stepOf({ from, to, kind }: ClusterEvent): string {
  return from && to && from !== to ? `${from} → ${to}` : words(kind.slice(kind.indexOf(".") + 1));
}

function Subject({ event }: { event: ClusterEvent }) {
  if (event.job !== null) {
    return (
      <>
        <Link to="/jobs/$id" params={{ id: String(event.job) }}>
          {event.job_name === null ? "Job" : visible(event.job_name)}
        </Link>{" "}
        <span className={muted}>#{event.job}</span>
        {event.subject !== "job" && `, ${event.subject}`}
      </>
    );
  }
  if (event.node_name !== null) {
    return (
      <Link to="/nodes/$name" params={{ name: event.node_name }}>
        {event.node_name}
      </Link>
    );
  }
  return <>{words(event.subject)}</>;
}
