import { ResultDialog } from "@/ui/dialog";
import { CopyButton } from "@/ui/feedback";
import styles from "@/components/shown-once.module.css";

/** A secret that the server will not tell again. */
export function ShownOnce({ secret, label }: { secret: string; label: string }) {
  return (
    <div className={styles.box}>
      <p>{label} It is shown only once: copy it before you close this dialog.</p>
      <div className={styles.secret}>
        <code>{secret}</code>
        <CopyButton text={secret} />
      </div>
    </div>
  );
}

interface ShownOnceDialogProps {
  title: string;
  description?: string;
  secret: string;
  label: string;
  onClose: () => void;
}

export function ShownOnceDialog({ secret, label, ...dialog }: ShownOnceDialogProps) {
  return (
    <ResultDialog {...dialog}>
      <ShownOnce secret={secret} label={label} />
    </ResultDialog>
  );
}
