import { Lightbulb } from "lucide-react";

import type { Reason } from "@/api/schema";
import { PartBar } from "@/components/use-bar";
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
  return (
    <p className={styles.shortfall}>
      <PartBar part={needed > 0 ? available / needed : 0} />
      {available} of {needed} GPUs available
    </p>
  );
}
