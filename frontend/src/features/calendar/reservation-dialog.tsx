import { useMutation, useQueryClient } from "@tanstack/react-query";

import { changeReservation, makeReservation, reservationEdition, reservationsQuery } from "@/api/reservation-queries";
import type { Reservation } from "@/api/schema";
import { useEdition } from "@/components/edition";
import { useSentForm } from "@/components/sent-form";
import { fieldTime, instantOf } from "@/features/calendar/words";
import { FormDialog } from "@/ui/dialog";
import { TextField } from "@/ui/field";
import { FieldRow } from "@/ui/form";
import { useSay } from "@/ui/toasts";

interface Draft {
  name: string;
  tenant: string;
  user: string;
  virtual_cluster: string;
  gpu_model: string;
  gpus: number | undefined;
  starts_at: string;
  ends_at: string;
  note: string;
}

const EMPTY: Draft = {
  name: "",
  tenant: "",
  user: "",
  virtual_cluster: "",
  gpu_model: "",
  gpus: undefined,
  starts_at: "",
  ends_at: "",
  note: "",
};

interface Props {
  /** Null to make a new one. */
  reservation: Reservation | null;
  onClose: () => void;
}

export function ReservationDialog({ reservation: shown, onClose }: Props) {
  const say = useSay();
  const queries = useQueryClient();
  const editing = useEdition(shown && reservationEdition(shown.id), shown);
  const reservation = editing.thing;
  const initial = reservation ? draftOf(reservation) : EMPTY;
  const save = useMutation({
    mutationFn: (draft: Draft) =>
      reservation
        ? changeReservation(reservation.id, changesOf(initial, draft), editing.edition)
        : makeReservation({ ...whose(draft), ...termsOf(draft) }),
    onSuccess: async ({ name }) => {
      await queries.invalidateQueries({ queryKey: reservationsQuery.queryKey });
      say("done", `${reservation ? "Saved" : "Made"} reservation ${name}.`);
      onClose();
    },
  });
  const { sending, field, number } = useSentForm<Draft>(initial, save, { editing });
  const isMade = reservation !== null;
  const hasBegun = isMade && reservation.state !== "announced";
  return (
    <FormDialog
      title={reservation ? `Edit reservation ${reservation.name}` : "Reserve GPUs"}
      description="Whole nodes are reserved. Until it starts, only guaranteed jobs that end in time start there; opportunistic jobs are stopped then."
      sending={sending}
      action={reservation ? "Save" : "Reserve"}
      onClose={onClose}
    >
      <TextField
        {...field("name")}
        label="Name"
        hint="Jobs write it into reservation"
        required
        readOnly={isMade}
        autoFocus
      />
      <FieldRow>
        <TextField {...field("tenant")} label="Tenant" required readOnly={isMade} />
        <TextField {...field("user")} label="User" hint="Empty: all of the tenant" readOnly={isMade} />
        <TextField
          {...field("virtual_cluster")}
          label="Virtual cluster"
          hint="Empty: all of the tenant's"
          readOnly={isMade}
        />
      </FieldRow>
      <FieldRow>
        <TextField {...field("gpu_model")} label="GPU model" required readOnly={isMade} />
        <TextField {...number("gpus")} label="GPUs" min={1} step={1} required readOnly={hasBegun} />
      </FieldRow>
      <FieldRow>
        <TextField {...field("starts_at")} label="Start" type="datetime-local" required readOnly={hasBegun} />
        <TextField {...field("ends_at")} label="End" type="datetime-local" required />
      </FieldRow>
      <TextField {...field("note")} label="Note" maxLength={300} />
    </FormDialog>
  );
}

function draftOf({ starts_at: start, ends_at: end, user, virtual_cluster: vc, ...kept }: Reservation): Draft {
  const { name, tenant, gpu_model: model, gpus, note } = kept;
  return {
    name,
    tenant,
    gpu_model: model,
    gpus,
    note,
    user: user ?? "",
    virtual_cluster: vc ?? "",
    starts_at: fieldTime(start),
    ends_at: fieldTime(end),
  };
}

function whose({ name, tenant, user, virtual_cluster: vc, gpu_model: model }: Draft) {
  return { name, tenant, user: user || null, virtual_cluster: vc || null, gpu_model: model };
}

function termsOf({ gpus, starts_at: start, ends_at: end, note }: Draft) {
  return { gpus: gpus ?? 0, starts_at: instantOf(start), ends_at: instantOf(end), note };
}

/** What was changed: once a reservation has begun, the server refuses the other fields. */
function changesOf(before: Draft, draft: Draft): Partial<ReturnType<typeof termsOf>> {
  const changed = Object.entries(termsOf(draft)).filter(([name]) => {
    const key = name as keyof Draft;
    return draft[key] !== before[key];
  });
  return Object.fromEntries(changed);
}
