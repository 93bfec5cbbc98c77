import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { decideAgain } from "@/api/ledger-queries";
import type { Line as LedgerLine } from "@/api/schema";
import { duration, moment, words } from "@/components/format";
import { JobLinks } from "@/components/job-links";
import styles from "@/components/ledger/ledger.module.css";
import { figure, figuresOf, gpusText, kindText, partiesOf, sentenceOf } from "@/components/ledger/words";
import { useSession } from "@/components/session";
import { Tag } from "@/components/state-badge";
import { Button } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { Entry, EntryFacts, EntryList } from "@/ui/entry-list";
import { ErrorNotice, Notice } from "@/ui/feedback";
import { muted } from "@/ui/layout";

/** What was bid, won, traded or lent, each as a sentence with its figures; a line opens to all there is of it. */
export function LedgerList({ lines, label }: { lines: readonly LedgerLine[]; label: string }) {
  return (
    <EntryList label={label}>
      {lines.map((line) => (
        <Entry
          key={line.id}
          name={`line ${line.id}`}
          when={moment(line.at)}
          where={<Where line={line} />}
          details={() => <Opened line={line} />}
        >
          <p>
            <Tag>{kindText(line.kind)}</Tag> {sentenceOf(line)}
          </p>
          <EntryFacts facts={figuresOf(line)} />
        </Entry>
      ))}
    </EntryList>
  );
}

/** The round and the view; rounds are for operators. */
function Where({ line: { round_number: round, view, person } }: { line: LedgerLine }) {
  const me = useSession();
  if (round === null) return <>{person ? `by ${person}` : view}</>;
  return (
    <>
      {view},{" "}
      {me.is_operator ? (
        <Link to="/rounds/$number" params={{ number: String(round) }}>
          round {round}
        </Link>
      ) : (
        `round ${round}`
      )}
    </>
  );
}

function Opened({ line }: { line: LedgerLine }) {
  return (
    <>
      <p>
        {partiesOf(line)}
        {line.jobs.length > 0 && ": "}
        <JobLinks ids={line.jobs} />
      </p>
      <Details details={line.details} />
      {line.round_number !== null && <Again line={line} />}
    </>
  );
}

/** Decides the line's round again from what was stored of it. */
function Again({ line }: { line: LedgerLine }) {
  const replay = useMutation({ mutationFn: () => decideAgain(line.id) });
  const { data } = replay;
  return (
    <div className={styles.again}>
      <Button busy={replay.isPending} onClick={() => replay.mutate()}>
        Decide again
      </Button>
      {replay.error && <ErrorNotice error={replay.error} />}
      {data?.same && (
        <Notice tone="running">
          Round {data.round_number}, decided again, gives exactly this line. It took{" "}
          {data.seconds < 1 ? `${Math.ceil(data.seconds * 1000)} ms` : duration(data.seconds)}.
        </Notice>
      )}
      {data && !data.same && (
        <Notice tone="failed">
          Round {data.round_number}, decided again, gives {data.line ? "another line here:" : "no line here."}{" "}
          {data.line?.message}
          {data.line && <EntryFacts facts={figuresOf(data.line)} />}
        </Notice>
      )}
      {!data && !replay.error && (
        <span className={muted}>Decides its round again from the stored facts, and compares the result.</span>
      )}
    </div>
  );
}

type Fields = Readonly<Record<string, unknown>>;

/** Whatever else a line has: figures side by side, and each list of entries as a table. */
function Details({ details }: { details: Fields }) {
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
