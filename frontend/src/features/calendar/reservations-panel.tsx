import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Pencil, Trash2 } from "lucide-react";
import { useState } from "react";

import { cancelReservation, reservationsQuery } from "@/api/reservation-queries";
import type { Reservation } from "@/api/schema";
import { clockAhead, counted } from "@/components/format";
import { distance } from "@/components/maintenance-words";
import { useNow } from "@/components/now";
import { useSession } from "@/components/session";
import { Badge, reservationLook } from "@/components/state-badge";
import styles from "@/features/calendar/calendar.module.css";
import { NodeLinks, useNodeNames } from "@/features/calendar/node-links";
import { ReservationDialog } from "@/features/calendar/reservation-dialog";
import { IconButton } from "@/ui/button";
import { type Column, DataTable } from "@/ui/data-table";
import { Confirm } from "@/ui/confirm";
import { EmptyState, ErrorNotice } from "@/ui/feedback";
import { muted, oneLine, Panel } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

/** Nodes that are kept for a tenant for a time; operators change and cancel. */
export function ReservationsPanel() {
  const me = useSession();
  const query = useQuery(reservationsQuery);
  const known = useNodeNames();
  const now = useNow();
  const [asked, setAsked] = useState<{ reservation: Reservation; what: "edit" | "cancel" } | null>(null);
  const close = () => setAsked(null);
  const columns: Column<Reservation>[] = [
    {
      header: "Reservation",
      isRowHeader: true,
      className: styles.reason,
      cell: ({ name, note, made_by: by }) => (
        <>
          <p>{name}</p>
          <p className={muted}>
            {note && `${note}, `}by {by.replace(/^user /, "")}
          </p>
        </>
      ),
    },
    { header: "State", className: oneLine, cell: (reservation) => <Badge look={reservationLook(reservation)} /> },
    {
      header: "For",
      cell: ({ tenant, user, virtual_cluster: vc }) => [tenant, user, vc && `in ${vc}`].filter(Boolean).join(", "),
    },
    {
      header: "GPUs",
      className: styles.names,
      cell: ({ gpus, gpu_model: model, nodes }) => (
        <>
          <p className={oneLine}>
            {gpus} {model}
          </p>
          <NodeLinks names={nodes} known={known} />
        </>
      ),
    },
    {
      header: "When",
      className: oneLine,
      cell: (reservation) => (
        <>
          {clockAhead(reservation.starts_at, now)} – {clockAhead(reservation.ends_at, now)}
          <p className={muted}>{distance(reservation, now)}</p>
        </>
      ),
    },
  ];
  if (me.is_operator) {
    columns.push({
      header: "Actions",
      isHeaderHidden: true,
      className: styles.actions,
      cell: (reservation) => (
        <>
          <IconButton
            label={`Edit reservation ${reservation.name}`}
            icon={<Pencil size={15} />}
            onClick={() => setAsked({ reservation, what: "edit" })}
          />
          <IconButton
            label={`Cancel reservation ${reservation.name}`}
            icon={<Trash2 size={15} />}
            onClick={() => setAsked({ reservation, what: "cancel" })}
          />
        </>
      ),
    });
  }
  return (
    <Panel title="Reservations" flush>
      <DataTable
        label="Reservations"
        rows={query.data}
        rowKey={({ id }) => id}
        columns={columns}
        query={query}
        empty={<EmptyState title="Nothing is reserved" />}
      />
      {asked?.what === "edit" && <ReservationDialog reservation={asked.reservation} onClose={close} />}
      {asked?.what === "cancel" && <CancelDialog reservation={asked.reservation} onClose={close} />}
    </Panel>
  );
}

function CancelDialog({ reservation, onClose }: { reservation: Reservation; onClose: () => void }) {
  const say = useSay();
  const queries = useQueryClient();
  const cancel = useMutation({
    mutationFn: () => cancelReservation(reservation.id),
    onSuccess: async () => {
      await queries.invalidateQueries({ queryKey: reservationsQuery.queryKey });
      say("done", `Cancelled reservation ${reservation.name}.`);
      onClose();
    },
  });
  return (
    <Confirm
      open
      onClose={onClose}
      title={`Cancel reservation ${reservation.name}?`}
      description={`${counted(reservation.nodes.length, "node")} can take all jobs at once.`}
      action="Cancel it"
      busy={cancel.isPending}
      onConfirm={() => cancel.mutate()}
    >
      {cancel.error && <ErrorNotice error={cancel.error} />}
    </Confirm>
  );
}
