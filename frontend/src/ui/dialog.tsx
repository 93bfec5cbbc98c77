import { Dialog as DialogPrimitive } from "radix-ui";
import { X } from "lucide-react";
import { useRef, type ReactNode } from "react";

import { Button, IconButton } from "@/ui/button";
import { useFocusBack } from "@/ui/focus-back";
import { Form } from "@/ui/form";
import styles from "@/ui/dialog.module.css";

interface DialogProps {
  open: boolean;
  onClose: () => void;
  title: string;
  description?: ReactNode;
  children: ReactNode;
}

export function Dialog({ open, onClose, title, description, children }: DialogProps) {
  const isTouched = useRef(false);
  const focusBack = useFocusBack();
  return (
    <DialogPrimitive.Root open={open} onOpenChange={(isOpen) => !isOpen && onClose()}>
      <DialogPrimitive.Portal>
        <DialogPrimitive.Overlay className={styles.overlay} />
        <DialogPrimitive.Content
          className={styles.content}
          {...focusBack}
          onInput={() => (isTouched.current = true)}
          // Once something was entered a click beside it does not throw that away; Escape and the buttons do.
          onInteractOutside={(event) => isTouched.current && event.preventDefault()}
          {...(description ? {} : { "aria-describedby": undefined })}
        >
          <div className={styles.head}>
            <DialogPrimitive.Title>{title}</DialogPrimitive.Title>
            <DialogPrimitive.Close asChild>
              <IconButton label="Close" icon={<X size={16} />} />
            </DialogPrimitive.Close>
          </div>
          {description && (
            <DialogPrimitive.Description className={styles.description}>{description}</DialogPrimitive.Description>
          )}
          {children}
        </DialogPrimitive.Content>
      </DialogPrimitive.Portal>
    </DialogPrimitive.Root>
  );
}

interface FormDialogProps extends Omit<DialogProps, "open"> {
  sending: { onSubmit: () => void; busy: boolean; notice: Error | null; onReload?: (() => void) | undefined };
  /** The verb on the button that sends it. */
  action: string;
  look?: "primary" | "danger";
  disabled?: boolean;
  /** The button that leaves it. */
  close?: string;
  /** Another thing to do, in its place. */
  other?: ReactNode;
}

/** Fields that are sent together; it stays open, with what was typed, when they are refused. */
export function FormDialog({ sending, action, look = "primary", disabled, close, other, ...rest }: FormDialogProps) {
  const { onSubmit, busy, notice, onReload } = sending;
  const { onClose, children, ...dialog } = rest;
  return (
    <Dialog open onClose={onClose} {...dialog}>
      <Form onSubmit={onSubmit} notice={notice} onReload={onReload}>
        {children}
        <DialogActions>
          {other ?? <Button onClick={onClose}>{close ?? "Close"}</Button>}
          <Button type="submit" look={look} busy={busy} disabled={disabled}>
            {action}
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

/** Tells what came of something. */
export function ResultDialog({ onClose, children, ...dialog }: Omit<DialogProps, "open">) {
  return (
    <Dialog open onClose={onClose} {...dialog}>
      {children}
      <DialogActions>
        <Button look="primary" onClick={onClose}>
          Done
        </Button>
      </DialogActions>
    </Dialog>
  );
}

/** The row of buttons at the foot of a dialog. */
export function DialogActions({ children }: { children: ReactNode }) {
  return <div className={styles.actions}>{children}</div>;
}
