import { useId, useState, type ReactNode } from "react";

import { Button } from "@/ui/button";
import styles from "@/ui/entry-list.module.css";
import { Facts } from "@/ui/layout";

/** What was written down, line by line: each `Entry` a sentence that opens to all there is of it. */
export function EntryList({ label, children }: { label: string; children: ReactNode }) {
  return (
    <ul className={styles.entries} aria-label={label}>
      {children}
    </ul>
  );
}

interface EntryProps {
  /** Such as "line 7"; for the button that opens it. */
  name: string;
  when: string;
  /** Under the time; beside it on a narrow screen. */
  where: ReactNode;
  children: ReactNode;
  /** Called once it is opened. */
  details: () => ReactNode;
}

export function Entry({ name, when, where, children, details }: EntryProps) {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  return (
    <li>
      <div className={styles.entry}>
        <p className={styles.when}>
          {when} <span>{where}</span>
        </p>
        <div className={styles.what}>{children}</div>
        <Button
          look="quiet"
          aria-expanded={isOpen}
          aria-controls={id}
          aria-label={`Details of ${name}`}
          onClick={() => setOpen(!isOpen)}
        >
          Details
        </Button>
      </div>
      <div id={id} className={styles.more} hidden={!isOpen}>
        {isOpen && details()}
      </div>
    </li>
  );
}

/** Terms and their values, one after another; nothing where there are none. */
export function EntryFacts({ facts }: { facts: readonly (readonly [string, ReactNode])[] }) {
  return facts.length > 0 && <Facts facts={facts} className={styles.facts} />;
}
