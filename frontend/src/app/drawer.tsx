import { Dialog } from "radix-ui";
import { X } from "lucide-react";

import { Navigation } from "@/app/navigation";
import { type Help, Who } from "@/app/who";
import { IconButton } from "@/ui/button";
import { useFocusBack } from "@/ui/focus-back";
import styles from "@/app/shell.module.css";

/** The navigation where the page is too narrow for it. */
export function Drawer({ help, onClose }: { help: Help; onClose: () => void }) {
  const focusBack = useFocusBack();
  return (
    <Dialog.Root open onOpenChange={(open) => !open && onClose()}>
      <Dialog.Portal>
        <Dialog.Overlay className={styles.veil} />
        <Dialog.Content className={styles.drawer} aria-describedby={undefined} {...focusBack}>
          <div className={styles.drawerHead}>
            <Dialog.Title>Menu</Dialog.Title>
            <Dialog.Close asChild>
              <IconButton label="Close" icon={<X size={18} />} />
            </Dialog.Close>
          </div>
          <Navigation onNavigate={onClose} />
          <Who help={help} onLeave={onClose} />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
