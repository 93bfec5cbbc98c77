import { useEffect, useId, type ReactNode } from "react";

import styles from "@/ui/layout.module.css";

interface PageProps {
  title: ReactNode;
  /** Under the title: what this is, in a few words or badges. */
  lead?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
}

const PRODUCT = "Allotment";

export function PageLayout({ title, lead, actions, children }: PageProps) {
  // So that tabs and bookmarks can be told apart.
  useEffect(() => {
    document.title = typeof title === "string" ? `${title} - ${PRODUCT}` : PRODUCT;
    return () => {
      document.title = PRODUCT;
    };
  }, [title]);
  return (
    <div className={styles.page}>
      <header className={styles.header}>
        <div className={styles.titles}>
          <h1>{title}</h1>
          {lead && <div className={styles.lead}>{lead}</div>}
        </div>
        {actions && <div className={styles.actions}>{actions}</div>}
      </header>
      {children}
    </div>
  );
}

interface PanelProps {
  title?: ReactNode;
  actions?: ReactNode;
  children: ReactNode;
  /** Content reaches the edges: for tables. */
  flush?: boolean;
  className?: string | undefined;
  id?: string;
}

export function Panel({ title, actions, children, flush = false, className, id }: PanelProps) {
  return (
    <section id={id} className={[styles.panel, className].filter(Boolean).join(" ")}>
      {(title ?? actions) && (
        <header className={styles.panelHeader}>
          {title && <h2>{title}</h2>}
          {actions && <div className={styles.actions}>{actions}</div>}
        </header>
      )}
      <div className={flush ? styles.flush : styles.body}>{children}</div>
    </section>
  );
}

export function Stack({ children }: { children: ReactNode }) {
  return <div className={styles.stack}>{children}</div>;
}

export function Row({ children }: { children: ReactNode }) {
  return <div className={styles.row}>{children}</div>;
}

/** Terms and their values, side by side, or laid out by the caller's class. */
export function Facts({
  facts,
  className = styles.facts,
}: {
  facts: readonly (readonly [string, ReactNode])[];
  className?: string;
}) {
  return (
    <dl className={className}>
      {facts.map(([term, value]) => (
        <div key={term}>
          <dt>{term}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A table that scrolls sideways inside its panel on a narrow screen; for lists use `DataTable`. */
export function TableFrame({ children, label }: { children: ReactNode; label: string }) {
  const id = useId();
  return (
    <div className={styles.tableFrame} role="region" aria-labelledby={id} tabIndex={0}>
      <table className={styles.table}>
        <caption id={id} className="visually-hidden">
          {label}
        </caption>
        {children}
      </table>
    </div>
  );
}

/** Class for cells of numbers, which align right. */
export const numeric = styles.numeric ?? "";
/** Class for text of less weight. */
export const muted = styles.muted ?? "";
/** Class for cells of sentences: on a narrow screen they have a line of their own below the cells before them. */
export const prose = styles.prose ?? "";
/** Class for cells whose text stays on one line. */
export const oneLine = styles.oneLine ?? "";
