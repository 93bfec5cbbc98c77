import { duration, words } from "@/components/format";
import { figure, gpusText } from "@/components/ledger/words";
import { DataTable } from "@/ui/data-table";
import { EntryFacts } from "@/ui/entry-list";
import styles from "@/components/ledger/ledger.module.css";

type Fields = Readonly<Record<string, unknown>>;

/** Whatever else a line has: figures side by side, and each list of entries as a table. */
export function Details({ details }: { details: Fields }) {
  const tables = Object.entries(details).filter(([, value]) => isTable(value));
  const facts = Object.entries(details).filter(([, value]) => !isTable(value));
  return (
    <>
      <EntryFacts facts={facts.map(([key, value]) => [label(key), text(key, value)])} />
      {tables.map(([key, rows]) => (
        <Rows key={key} title={label(key)} rows={rows as readonly Fields[]} />
      ))}
    </>
  );
}

function Rows({ title, rows }: { title: string; rows: readonly Fields[] }) {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  return (
    <div className={styles.rows}>
      <p>{title}</p>
      <DataTable
        label={title}
        rows={rows}
        rowKey={(_, index) => index}
        columns={columns.map((column) => ({
          id: column,
          header: label(column),
          cell: (row: Fields) => text(column, row[column]),
        }))}
      />
    </div>
  );
}

function isTable(value: unknown): boolean {
  return Array.isArray(value) && value.length > 0 && value.every(isFields);
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** "lease_seconds" as "Lease": the unit stands beside the figure. */
function label(key: string): string {
  return words(key.replace(/_seconds$/, "")).replace(/\bgpus?\b/gi, (gpus) => (gpus.endsWith("s") ? "GPUs" : "GPU"));
}

function text(key: string, value: unknown): string {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return key.endsWith("_seconds") ? duration(value) : figure(value);
  if (Array.isArray(value)) return value.map((each) => text(key, each)).join(", ") || "–";
  if (isFields(value)) {
    const entries = Object.entries(value);
    if (entries.every(([, each]) => typeof each === "number")) return gpusText(value as Record<string, number>) || "–";
    return entries.map(([name, each]) => `${name}: ${text(name, each)}`).join(", ");
  }
  return typeof value === "string" ? value : JSON.stringify(value);
}
