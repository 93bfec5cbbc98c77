import { CopyButton } from "@/ui/feedback";
import styles from "@/components/shown-once.module.css";

/** A secret that the server will not tell again. */
export function ShownOnce({ secret, label }: { secret: string; label: string }) {
  return (
    <div className={styles.box}>
      <p>{label} It is shown only now: copy it before you close this.</p>
      <div className={styles.secret}>
        <code>{secret}</code>
        <CopyButton text={secret} />
      </div>
    </div>
  );
}
