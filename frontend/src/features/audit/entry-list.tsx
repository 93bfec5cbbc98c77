import { useId, useState } from "react";

import type { AuditEntry } from "@/api/schema";
import { moment } from "@/components/format";
import { Tag } from "@/components/state-badge";
import { differences } from "@/features/audit/difference";
import { Button } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import styles from "@/features/audit/audit.module.css";

/** Each entry as a sentence; it opens to what changed and by what request. */
export function EntryList({ entries }: { entries: readonly AuditEntry[] }) {
  return (
    <ul className={styles.entries} aria-label="Audit log">
      {entries.map((entry) => (
        <Entry key={entry.id} entry={entry} />
      ))}
    </ul>
  );
}

function Entry({ entry }: { entry: AuditEntry }) {
  const [isOpen, setOpen] = useState(false);
  const id = useId();
  return (
    <li>
      <div className={styles.entry}>
        <p className={styles.when}>
          {moment(entry.at)} <span>{entry.address ? `from ${entry.address}` : ""}</span>
        </p>
        <p className={styles.what}>
          <Tag>{entry.action}</Tag>{" "}
          <span className={entry.outcome === "refused" ? styles.refused : undefined}>{entry.sentence}</span>
        </p>
        <Button
          look="quiet"
          aria-expanded={isOpen}
          aria-controls={id}
          aria-label={`Details of entry ${entry.id}`}
          onClick={() => setOpen(!isOpen)}
        >
          {isOpen ? "Less" : "More"}
        </Button>
      </div>
      <div id={id} className={styles.more} hidden={!isOpen}>
        {isOpen && <Opened entry={entry} />}
      </div>
    </li>
  );
}

function Opened({ entry }: { entry: AuditEntry }) {
  const changed = differences(entry.before, entry.after);
  const facts = [
    ["entry", String(entry.id)],
    ["by", `${entry.actor}${entry.token && ` with token ${entry.token}`}`],
    ["request", entry.request],
    ["on", [entry.object, entry.object_id].filter(Boolean).join(" ")],
  ].filter(([, value]) => value);
  return (
    <>
      <dl className={styles.facts}>
        {facts.map(([term, value]) => (
          <div key={term}>
            <dt>{term}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {changed.length > 0 && (
        <DataTable
          label={`Changes of entry ${entry.id}`}
          rows={changed}
          rowKey={({ field }) => field}
          columns={[
            { header: "Field", isRowHeader: true, cell: ({ field }) => field },
            { header: "Before", className: styles.value, cell: ({ before }) => before !== null && <del>{before}</del> },
            { header: "After", className: styles.value, cell: ({ after }) => after !== null && <ins>{after}</ins> },
          ]}
        />
      )}
    </>
  );
}
