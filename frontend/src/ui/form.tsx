import { useEffect, useRef, type ReactNode } from "react";

import { ErrorNotice, OutdatedNotice } from "@/ui/feedback";
import styles from "@/ui/form.module.css";

interface FormProps {
  onSubmit: () => void;
  /** What went wrong and is not told at a field. */
  notice?: Error | null | undefined;
  /** Fetches what others have changed, where that is what went wrong. */
  onReload?: (() => void) | undefined;
  /** In the place of fields one below another. */
  className?: string | undefined;
  children: ReactNode;
}

/** Fields that are sent together. The first in which something was wrong then has the focus. */
export function Form({ onSubmit, notice, onReload, className = styles.form, children }: FormProps) {
  const form = useRef<HTMLFormElement>(null);
  const wasSent = useRef(false);
  // After a long form is sent, its end is in sight, and a notice above the fields is not.
  useEffect(() => {
    if (notice) form.current?.querySelector("[role=alert]")?.scrollIntoView({ block: "nearest" });
  }, [notice]);
  useEffect(() => {
    const wrong = wasSent.current && form.current?.querySelector<HTMLElement>("[aria-invalid=true]");
    if (!wrong) return;
    wasSent.current = false;
    wrong.focus();
  });
  return (
    <form
      ref={form}
      className={className}
      onInput={() => (wasSent.current = false)}
      onSubmit={(event) => {
        event.preventDefault();
        wasSent.current = true;
        onSubmit();
      }}
    >
      {notice && (onReload ? <OutdatedNotice error={notice} onReload={onReload} /> : <ErrorNotice error={notice} />)}
      {children}
    </form>
  );
}

/** Fields side by side, where there is room. */
export function FieldRow({ children }: { children: ReactNode }) {
  return <div className={styles.row}>{children}</div>;
}

interface FieldGroupProps {
  legend: ReactNode;
  /** What is wrong with the fields together. */
  problem?: ReactNode;
  children: ReactNode;
}

/** Several controls that answer one question. */
export function FieldGroup({ legend, problem, children }: FieldGroupProps) {
  return (
    <fieldset className={styles.group}>
      <legend>{legend}</legend>
      {children}
      {problem && <p className={styles.problem}>{problem}</p>}
    </fieldset>
  );
}
