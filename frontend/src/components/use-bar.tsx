import styles from "@/components/use-bar.module.css";

/** So many of so many, as a short bar and in figures. */
export function UseBar({ used, total }: { used: number; total: number }) {
  return (
    <span className={styles.use}>
      <PartBar part={total > 0 ? used / total : 0} />
      {used} of {total}
    </span>
  );
}

/** A part of a whole, or of the longest; what it means stands beside it. */
export function PartBar({ part, guess = false }: { part: number; guess?: boolean }) {
  return (
    <span className={styles.track} aria-hidden>
      <span style={{ width: `${Math.min(1, Math.max(0, part)) * 100}%` }} data-guess={guess || undefined} />
    </span>
  );
}
