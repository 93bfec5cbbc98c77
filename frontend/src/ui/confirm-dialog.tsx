import { AlertDialog as AlertPrimitive } from "radix-ui";
import type { ReactNode } from "react";

import { Button } from "@/ui/button";
import { useFocusBack } from "@/ui/focus-back";
import styles from "@/ui/dialog.module.css";

export interface ConfirmDialogProps {
  onClose: () => void;
  title: string;
  description: ReactNode;
  /** The verb on the button that does it. */
  action: string;
  busy?: boolean;
  onConfirm: () => void;
  children?: ReactNode;
}

/** What `Confirm` shows; see there. */
export function ConfirmDialog({
  onClose,
  title,
  description,
  action,
  busy = false,
  onConfirm,
  children,
}: ConfirmDialogProps) {
  const focusBack = useFocusBack();
  return (
    <AlertPrimitive.Root open onOpenChange={(isOpen) => !isOpen && onClose()}>
      <AlertPrimitive.Portal>
        <AlertPrimitive.Overlay className={styles.overlay} />
        <AlertPrimitive.Content className={styles.content} {...focusBack}>
          <AlertPrimitive.Title>{title}</AlertPrimitive.Title>
          <AlertPrimitive.Description className={styles.description}>{description}</AlertPrimitive.Description>
          {children}
          <div className={styles.actions}>
            <AlertPrimitive.Cancel asChild>
              <Button>Keep</Button>
            </AlertPrimitive.Cancel>
            <Button look="danger" busy={busy} onClick={onConfirm}>
              {action}
            </Button>
          </div>
        </AlertPrimitive.Content>
      </AlertPrimitive.Portal>
    </AlertPrimitive.Root>
  );
}
