import type { ConfirmDialogProps } from "@/ui/confirm-dialog";
import { onDemand } from "@/ui/on-demand";

const ConfirmDialog = onDemand(async () => (await import("@/ui/confirm-dialog")).ConfirmDialog);

/** Asks before something that cannot be undone. */
export function Confirm({ open, ...props }: ConfirmDialogProps & { open: boolean }) {
  return open ? <ConfirmDialog {...props} /> : null;
}
