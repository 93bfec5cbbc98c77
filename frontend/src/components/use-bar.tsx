import styles from "@/components/use-bar.module.css";

/** So many of so many, as a short bar and in figures. */
export function UseBar({ used, total }: { used: number; total: number }) {
  return (
    <span className={styles.use}>
      <span className={styles.track} aria-hidden>
        <span style={{ width: `${total > 0 ? (100 * used) / total : 0}%` }} />
      </span>
      {used} of {total}
    </span>
  );
}
