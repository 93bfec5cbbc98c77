import { CircleCheck, CircleX, Clock, LoaderCircle, TriangleAlert } from "lucide-react";
import type { ReactNode } from "react";

import styles from "@/ui/verdict.module.css";

/** At the foot of a page that is written on: what would come of it, and the button that does it. */
export function VerdictBar({ verdict, children }: { verdict: ReactNode; children: ReactNode }) {
  return (
    <div className={styles.bar}>
      <div role="status" className={styles.verdict}>
        {verdict}
      </div>
      {children}
    </div>
  );
}

const KINDS = {
  good: { icon: CircleCheck, className: styles.good },
  waits: { icon: Clock, className: styles.waits },
  warning: { icon: TriangleAlert, className: styles.waits },
  wrong: { icon: CircleX, className: styles.wrong },
  failed: { icon: TriangleAlert, className: styles.wrong },
  pending: { icon: LoaderCircle, className: undefined },
};

/** One sentence of it. */
export function Verdict({ kind, children }: { kind: keyof typeof KINDS; children: ReactNode }) {
  const { icon: Icon, className } = KINDS[kind];
  return (
    <p className={className}>
      <Icon size={16} aria-hidden />
      <span>{children}</span>
    </p>
  );
}
