import { useMutation, useQueryClient } from "@tanstack/react-query";

import { announceWindow, changeWindow, windowEdition, windowsQuery } from "@/api/maintenance-queries";
import type { MaintenanceWindow } from "@/api/schema";
import { useEdition } from "@/components/edition";
import { useSentForm } from "@/components/sent-form";
import { fieldTime, instantOf, namesIn } from "@/features/calendar/words";
import { FormDialog } from "@/ui/dialog";
import { TextField } from "@/ui/field";
import { FieldRow } from "@/ui/form";
import { useSay } from "@/ui/toasts";

interface Draft {
  reason: string;
  starts_at: string;
  ends_at: string;
  nodes: string;
  racks: string;
}

const EMPTY: Draft = { reason: "", starts_at: "", ends_at: "", nodes: "", racks: "" };

interface Props {
  /** Null to announce a new one. */
  window: MaintenanceWindow | null;
  onClose: () => void;
}

export function WindowDialog({ window: shown, onClose }: Props) {
  const say = useSay();
  const queries = useQueryClient();
  const editing = useEdition(shown && windowEdition(shown.id), shown);
  const window = editing.thing;
  const initial = window ? draftOf(window) : EMPTY;
  const save = useMutation({
    mutationFn: (draft: Draft) =>
      window ? changeWindow(window.id, changesOf(initial, draft), editing.edition) : announceWindow(bodyOf(draft)),
    onSuccess: async ({ id }) => {
      await queries.invalidateQueries({ queryKey: windowsQuery.queryKey });
      say("done", `${window ? "Saved" : "Announced"} maintenance ${id}.`);
      onClose();
    },
  });
  const { sending, field } = useSentForm<Draft>(initial, save, { editing });
  const hasBegun = window !== null && window.state !== "announced";
  return (
    <FormDialog
      title={window ? `Edit maintenance ${window.id}` : "Announce maintenance"}
      description="Until it starts, only jobs that end in time start on its nodes. Users with longer jobs there are notified."
      sending={sending}
      action={window ? "Save" : "Announce"}
      onClose={onClose}
    >
      <TextField {...field("reason")} label="Reason" hint="All users see it." required maxLength={300} autoFocus />
      <FieldRow>
        <TextField {...field("starts_at")} label="Start" type="datetime-local" required readOnly={hasBegun} />
        <TextField {...field("ends_at")} label="End" type="datetime-local" required />
      </FieldRow>
      <TextField {...field("nodes")} label="Nodes" hint="Names, with spaces between them" readOnly={hasBegun} />
      <TextField {...field("racks")} label="Racks" hint="All nodes that stand there now" readOnly={hasBegun} />
    </FormDialog>
  );
}

function draftOf({ reason, starts_at: start, ends_at: end, nodes }: MaintenanceWindow): Draft {
  return { reason, starts_at: fieldTime(start), ends_at: fieldTime(end), nodes: nodes.join(" "), racks: "" };
}

function bodyOf({ reason, starts_at: start, ends_at: end, nodes, racks }: Draft) {
  return {
    reason,
    starts_at: instantOf(start),
    ends_at: instantOf(end),
    nodes: namesIn(nodes),
    racks: namesIn(racks),
  };
}

/** What was changed: once a window has begun, the server refuses the other fields, even unchanged. */
function changesOf(before: Draft, draft: Draft): Partial<ReturnType<typeof bodyOf>> {
  const { nodes, racks, ...others } = bodyOf(draft);
  const isChanged = (name: keyof Draft) => draft[name] !== before[name];
  const changed = Object.entries(others).filter(([name]) => isChanged(name as keyof Draft));
  return { ...Object.fromEntries(changed), ...(isChanged("nodes") || isChanged("racks") ? { nodes, racks } : {}) };
}
