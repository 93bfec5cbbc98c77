import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { CalendarClock, CalendarPlus, Pencil, Trash2 } from "lucide-react";
import { useState } from "react";

import { cancelWindow, windowsQuery } from "@/api/maintenance-queries";
import { nodesQuery } from "@/api/queries";
import type { MaintenanceWindow, Node } from "@/api/schema";
import { clockAhead, counted, duration } from "@/components/format";
import { JobLinks } from "@/components/job-links";
import { distance } from "@/components/maintenance-words";
import { useNow } from "@/components/now";
import { useSession } from "@/components/session";
import { Badge, windowLook } from "@/components/state-badge";
import styles from "@/features/calendar/calendar.module.css";
import { NodeLinks, useNodeNames } from "@/features/calendar/node-links";
import { ReservationDialog } from "@/features/calendar/reservation-dialog";
import { ReservationsPanel } from "@/features/calendar/reservations-panel";
import { WindowDialog } from "@/features/calendar/window-dialog";
import { place } from "@/features/calendar/words";
import { useNewest } from "@/live/live";
import { Button, IconButton } from "@/ui/button";
import { type Column, DataTable } from "@/ui/data-table";
import { Confirm } from "@/ui/confirm";
import { EmptyState, ErrorNotice } from "@/ui/feedback";
import { muted, oneLine, PageLayout, Panel, Row, Stack } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

/** The most jobs of a window that are named. */
const NAMED = 8;

/** When nodes close for maintenance or by a deadline, and when they are reserved. */
export function CalendarPage() {
  const me = useSession();
  const [asked, setAsked] = useState<"new" | "reserve" | { window: MaintenanceWindow; what: "edit" | "cancel" } | null>(
    null,
  );
  const close = () => setAsked(null);
  return (
    <PageLayout
      title="Calendar"
      lead="When nodes close or are reserved, why, and which jobs are there. Jobs that are left at the start write a checkpoint and continue elsewhere."
      actions={
        me.is_operator && (
          <Row>
            <Button icon={<CalendarClock size={14} aria-hidden />} onClick={() => setAsked("reserve")}>
              Reserve GPUs
            </Button>
            <Button look="primary" icon={<CalendarPlus size={14} aria-hidden />} onClick={() => setAsked("new")}>
              Announce maintenance
            </Button>
          </Row>
        )
      }
    >
      <Stack>
        <WindowsPanel
          actions={
            me.is_operator
              ? (window) => (
                  <>
                    <IconButton
                      label={`Edit maintenance ${window.id}`}
                      icon={<Pencil size={15} />}
                      onClick={() => setAsked({ window, what: "edit" })}
                    />
                    <IconButton
                      label={`Cancel maintenance ${window.id}`}
                      icon={<Trash2 size={15} />}
                      onClick={() => setAsked({ window, what: "cancel" })}
                    />
                  </>
                )
              : undefined
          }
        />
        <ReservationsPanel />
        <ClosingPanel />
      </Stack>
      {asked === "reserve" && <ReservationDialog reservation={null} onClose={close} />}
      {asked === "new" && <WindowDialog window={null} onClose={close} />}
      {typeof asked === "object" && asked?.what === "edit" && <WindowDialog window={asked.window} onClose={close} />}
      {typeof asked === "object" && asked?.what === "cancel" && <CancelDialog window={asked.window} onClose={close} />}
    </PageLayout>
  );
}

function WindowsPanel({ actions }: { actions?: ((window: MaintenanceWindow) => React.ReactNode) | undefined }) {
  const query = useQuery(windowsQuery);
  const known = useNodeNames();
  const now = useNow();
  const windows = query.data ?? [];
  const columns: Column<MaintenanceWindow>[] = [
    {
      header: "Maintenance",
      isRowHeader: true,
      className: styles.reason,
      cell: (window) => (
        <>
          <p>{window.reason}</p>
          <p className={muted}>
            #{window.id} by {window.made_by.replace(/^user /, "")}
          </p>
        </>
      ),
    },
    { header: "State", className: oneLine, cell: (window) => <Badge look={windowLook(window)} /> },
    {
      header: "When",
      className: oneLine,
      cell: (window) => (
        <>
          {clockAhead(window.starts_at, now)} – {clockAhead(window.ends_at, now)}
          <p className={muted}>{distance(window, now)}</p>
          <Bar window={window} all={windows} now={now} />
        </>
      ),
    },
    {
      header: "Nodes",
      className: styles.names,
      cell: ({ nodes }) => <NodeLinks names={nodes} known={known} />,
    },
    {
      header: "Jobs there",
      className: styles.names,
      cell: ({ jobs, job_count: count }) => (
        <>
          {count === 0 && <span className={muted}>{actions ? "none" : "none of yours"}</span>}
          <JobLinks ids={jobs.slice(0, NAMED).map(({ id }) => id)} />
          {count > NAMED && ` and ${count - NAMED} more`}
        </>
      ),
    },
  ];
  if (actions) columns.push({ header: "Actions", isHeaderHidden: true, className: styles.actions, cell: actions });
  return (
    <Panel title="Maintenance windows" flush>
      <DataTable
        label="Maintenance windows"
        rows={query.data}
        rowKey={({ id }) => id}
        columns={columns}
        query={query}
        empty={<EmptyState title="No maintenance is announced" />}
      />
    </Panel>
  );
}

function Bar({ window, all, now }: { window: MaintenanceWindow; all: readonly MaintenanceWindow[]; now: number }) {
  const { left, width } = place(window, all, now);
  return (
    <span className={styles.track} aria-hidden>
      <span className={styles.bar} style={{ left: `${left}%`, width: `${width}%` }} />
    </span>
  );
}

/** Nodes that operators drain by a deadline. */
function ClosingPanel() {
  const query = useQuery(nodesQuery);
  const nodes = useNewest("node", query.data);
  const now = useNow();
  const closing = nodes.filter(({ drain_deadline: deadline }) => deadline !== null);
  if (closing.length === 0) return null;
  const columns: Column<Node>[] = [
    { header: "Node", isRowHeader: true, cell: ({ name }) => <NodeLinks names={[name]} known={undefined} /> },
    {
      header: "Closes",
      className: oneLine,
      cell: ({ drain_deadline: deadline }) =>
        deadline && `${clockAhead(deadline, now)}, in ${duration((Date.parse(deadline) - now) / 1000)}`,
    },
    { header: "GPUs in use", cell: ({ gpus }) => counted(gpus.filter(({ state }) => state === "held").length, "GPU") },
    { header: "Why", className: styles.reason, cell: ({ withdrawn }) => withdrawn?.why || "–" },
  ];
  return (
    <Panel title="Nodes drained by a deadline" flush>
      <DataTable label="Nodes drained by a deadline" rows={closing} rowKey={({ id }) => id} columns={columns} />
    </Panel>
  );
}

function CancelDialog({ window, onClose }: { window: MaintenanceWindow; onClose: () => void }) {
  const say = useSay();
  const queries = useQueryClient();
  const cancel = useMutation({
    mutationFn: () => cancelWindow(window.id),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: windowsQuery.queryKey });
      say("done", `Cancelled maintenance ${window.id}.`);
      onClose();
    },
  });
  return (
    <Confirm
      open
      onClose={onClose}
      title={`Cancel maintenance ${window.id}?`}
      description={`${counted(window.nodes.length, "node")} can take jobs of any length at once.`}
      action="Cancel it"
      busy={cancel.isPending}
      onConfirm={() => cancel.mutate()}
    >
      {cancel.error && <ErrorNotice error={cancel.error} />}
    </Confirm>
  );
}
