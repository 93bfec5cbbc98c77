import styles from "@/components/use-bar.module.css";

interface UseBarProps {
  used: number;
  total: number;
  /** How an amount is written. */
  words?: (amount: number) => string | number;
}

/** So many of so many, as a short bar and in figures. */
export function UseBar({ used, total, words = (amount) => amount }: UseBarProps) {
  return (
    <span className={styles.use}>
      <PartBar part={total > 0 ? used / total : 0} />
      {words(used)} of {words(total)}
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
