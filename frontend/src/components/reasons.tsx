import { Lightbulb } from "lucide-react";

import type { Reason } from "@/api/schema";
import styles from "@/components/reasons.module.css";

/** Why a job waits, the most decisive reason first, each with what would help. */
export function ReasonList({ reasons }: { reasons: readonly Reason[] }) {
  return (
    <ol className={styles.reasons}>
      {reasons.map((reason) => (
        <li key={`${reason.code} ${reason.message}`}>
          <p>{reason.message}</p>
          {reason.hint && (
            <p className={styles.hint}>
              <Lightbulb size={14} aria-hidden />
              {reason.hint}
            </p>
          )}
          {reason.needed !== null && reason.available !== null && (
            <Shortfall needed={reason.needed} available={reason.available} />
          )}
        </li>
      ))}
    </ol>
  );
}

function Shortfall({ needed, available }: { needed: number; available: number }) {
  const share = needed > 0 ? Math.min(1, Math.max(0, available / needed)) : 0;
  return (
    <p className={styles.shortfall}>
      <span className={styles.bar} aria-hidden>
        <span style={{ width: `${share * 100}%` }} />
      </span>
      {available} of {needed} GPUs available
    </p>
  );
}
