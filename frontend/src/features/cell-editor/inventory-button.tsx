import { useMutation } from "@tanstack/react-query";
import { ServerCog } from "lucide-react";
import { useState } from "react";

import type { CellDraft } from "@/features/cell-editor/document";
import { answerOf, api } from "@/api/client";
import { withHardwareOf } from "@/features/cell-editor/document";
import { Button } from "@/ui/button";
import { Dialog, DialogActions } from "@/ui/dialog";
import { useSay } from "@/ui/toasts";

interface InventoryButtonProps {
  document: CellDraft;
  onChange: (document: CellDraft) => void;
}

/** Takes types and hardware from the nodes that there are; asks before it replaces what virtual clusters own. */
export function InventoryButton({ document, onChange }: InventoryButtonProps) {
  const say = useSay();
  const [proposed, setProposed] = useState<CellDraft | null>(null);
  const ownsSomething = Object.keys(document.virtual_clusters ?? {}).length > 0;
  const take = (next: CellDraft) => {
    onChange(next);
    setProposed(null);
    say("done", "Taken from the inventory; nothing is in force before you apply it.");
  };
  const propose = useMutation({
    mutationFn: () => answerOf(api.POST("/cells/proposal")),
    onSuccess: ({ specification }) => (ownsSomething ? setProposed(specification) : take(specification)),
    onError: (error) => say("failed", error.message),
  });
  return (
    <>
      <Button icon={<ServerCog size={15} aria-hidden />} busy={propose.isPending} onClick={() => propose.mutate()}>
        From the inventory
      </Button>
      {proposed && (
        <Dialog
          open
          onClose={() => setProposed(null)}
          title="Take the inventory"
          description="Types and hardware are replaced by those of the nodes as they are now. What becomes of the cells that virtual clusters own?"
        >
          <DialogActions>
            <Button onClick={() => take(proposed)}>Propose them anew</Button>
            <Button look="primary" onClick={() => take(withHardwareOf(document, proposed))}>
              Keep them
            </Button>
          </DialogActions>
        </Dialog>
      )}
    </>
  );
}
