import type { AuditEntry } from "@/api/schema";
import { moment } from "@/components/format";
import { Tag } from "@/components/state-badge";
import styles from "@/features/audit/audit.module.css";
import { DataTable } from "@/ui/data-table";
import { Entry, EntryFacts, EntryList } from "@/ui/entry-list";

/** Each entry as a sentence; it opens to what changed and by what request. */
export function AuditEntries({ entries }: { entries: readonly AuditEntry[] }) {
  return (
    <EntryList label="Audit log">
      {entries.map((entry) => (
        <Entry
          key={entry.id}
          name={`entry ${entry.id}`}
          when={moment(entry.at)}
          where={entry.address && `from ${entry.address}`}
          details={() => <Opened entry={entry} />}
        >
          <p>
            <Tag>{entry.action}</Tag>{" "}
            <span className={entry.outcome === "refused" ? styles.refused : undefined}>{entry.sentence}</span>
          </p>
        </Entry>
      ))}
    </EntryList>
  );
}

function Opened({ entry }: { entry: AuditEntry }) {
  const changed = differences(entry.before, entry.after);
  const facts = [
    ["entry", String(entry.id)],
    ["by", `${entry.actor}${entry.token && ` with token ${entry.token}`}`],
    ["request", entry.request],
    ["on", [entry.object, entry.object_id].filter(Boolean).join(" ")],
  ] as const;
  return (
    <>
      <EntryFacts facts={facts.filter(([, value]) => value)} />
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

interface Difference {
  field: string;
  before: string | null;
  after: string | null;
}

/** Field by field, in the order of their names; null where there was none. */
export function differences(before: unknown, after: unknown): Difference[] {
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])].sort();
  return names.map((field) => ({
    field: field.replaceAll("_", " "),
    before: field in old ? shown(old[field]) : null,
    after: field in now ? shown(now[field]) : null,
  }));
}

/** Of old entries some hold a single value. */
function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  if (value === null || value === undefined) return {};
  if (typeof value === "object" && !Array.isArray(value)) return value as Record<string, unknown>;
  return { value };
}

function shown(value: unknown): string {
  if (value === null || value === "") return "nothing";
  return typeof value === "string" ? value : JSON.stringify(value);
}
