import { useInfiniteQuery } from "@tanstack/react-query";
import { HandHelping, TriangleAlert } from "lucide-react";

import { eventsQuery } from "@/api/queries";
import type { Node } from "@/api/schema";
import { ago, moment } from "@/components/format";
import { useNow } from "@/components/now";
import { Badge, verdictLook } from "@/components/state-badge";
import { checkTitle, loanText, withdrawnText, worstFirst } from "@/features/nodes/words";
import { DataTable } from "@/ui/data-table";
import { EmptyState, Notice } from "@/ui/feedback";
import { muted, oneLine, Panel, prose } from "@/ui/layout";

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

/** Whose node it is where a serving pool lends it, and what becomes of it. */
export function LoanNotice({ node }: { node: Node }) {
  const text = loanText(node, useNow());
  return (
    text && (
      <Notice tone={node.loan?.state === "lent" ? "running" : "waiting"} icon={<HandHelping size={16} aria-hidden />}>
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
      <DataTable
        label="Health checks"
        rows={worstFirst(node.health)}
        rowKey={({ name }) => name}
        empty={<EmptyState title="Nothing checked yet">The node agent reports its checks here.</EmptyState>}
        columns={[
          { header: "Check", isRowHeader: true, className: oneLine, cell: checkTitle },
          { header: "Verdict", cell: ({ verdict }) => <Badge look={verdictLook(verdict)} /> },
          {
            header: "Since",
            className: `${oneLine} ${muted}`,
            attributes: ({ since }) => ({ title: moment(since) }),
            cell: ({ since }) => ago(since, now),
          },
          { header: "Message", className: prose, cell: ({ message }) => message },
        ]}
      />
    </Panel>
  );
}

/** When a check's verdict changed, the newest first. */
export function HealthHistory({ name }: { name: string }) {
  const query = useInfiniteQuery(eventsQuery({ node: name, kind: "node.check" }));
  const events = (query.data?.pages ?? []).flatMap(({ results }) => results);
  return (
    <Panel title="Health history" flush>
      <DataTable
        label="Changes of verdicts"
        rows={events}
        rowKey={({ id }) => id}
        query={query}
        empty={<EmptyState title="No verdict has changed" />}
        columns={[
          { header: "Time", className: oneLine, cell: ({ at }) => moment(at) },
          { header: "From", className: muted, cell: ({ from }) => from || "–" },
          { header: "To", cell: ({ to }) => to },
          { header: "Finding", className: prose, cell: ({ message }) => message },
        ]}
      />
    </Panel>
  );
}
