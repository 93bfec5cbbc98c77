import { useMemo, useState } from "react";

import { counted } from "@/components/format";
import { columnsOf, ownedBy, type Column } from "@/features/cell-editor/columns";
import { setCells } from "@/features/cell-editor/document";
import { problemAt } from "@/features/cell-editor/problems";
import { Slot } from "@/features/cell-editor/slot";
import type { PartProps } from "@/features/cell-editor/types-panel";
import { DataTable, type Column as Declared } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { NumberInput, TextInput } from "@/ui/field";
import { muted, oneLine, Panel } from "@/ui/layout";
import styles from "@/features/cell-editor/editor.module.css";

/** With more virtual clusters than this they can be searched. */
const MANY = 12;

interface OwnersProps extends PartProps {
  /** Virtual clusters that there are. */
  clusters: readonly string[];
  /** GPUs by model that each comes to, as the server counts. */
  guaranteed: Readonly<Record<string, Record<string, number>>> | undefined;
}

/** Which virtual cluster owns how many cells of each type. */
export function OwnersPanel({ document, problems, onChange, clusters, guaranteed }: OwnersProps) {
  const [wanted, setWanted] = useState("");
  const columns = useMemo(() => columnsOf(document), [document]);
  const names = [...new Set([...clusters, ...Object.keys(document.virtual_clusters ?? {})])].sort();
  const shown = names.filter((name) => name.includes(wanted.trim()));
  const emptyTitle =
    columns.length === 0
      ? "No hardware to divide yet"
      : names.length === 0
        ? "No virtual clusters yet"
        : "No virtual cluster matches";
  return (
    <Panel
      title="Cells of each virtual cluster"
      flush
      actions={
        names.length > MANY && (
          <TextInput
            type="search"
            aria-label="Filter virtual clusters"
            placeholder="Filter by name"
            value={wanted}
            onChange={(event) => setWanted(event.target.value)}
          />
        )
      }
    >
      <DataTable
        label="Cells of each virtual cluster"
        rows={columns.length === 0 || names.length === 0 ? [] : shown.map((name) => ({ name }))}
        rowKey={({ name }) => name}
        empty={<EmptyState title={emptyTitle} />}
        columns={[
          {
            header: "Virtual cluster",
            isRowHeader: true,
            className: styles.owner,
            cell: ({ name }) => (
              <Slot field={`virtual_clusters.${name}`} problems={problems}>
                {(attributes) => (
                  <span {...attributes} tabIndex={-1}>
                    {name}
                  </span>
                )}
              </Slot>
            ),
            footer: ["In the hardware", "Left to give"],
          },
          {
            header: "Comes to",
            className: `${oneLine} ${muted}`,
            cell: ({ name }) => gpusText(guaranteed?.[name]),
          },
          ...columns.map((column): Declared<{ name: string }> => ({
            id: `cells ${column.path}`,
            header: (
              <>
                {column.path}
                <br />
                <span className={muted}>{describe(column)}</span>
              </>
            ),
            className: styles.narrow,
            cell: ({ name }) => (
              <Count document={document} problems={problems} onChange={onChange} cluster={name} column={column} />
            ),
            footer: [
              column.chain === null ? "none" : column.total,
              <Left column={column} problem={problemAt(problems, `virtual_clusters.*.cells.${column.type}`)} />,
            ],
          })),
        ]}
      />
    </Panel>
  );
}

function Count({ document, problems, onChange, cluster, column }: PartProps & { cluster: string; column: Column }) {
  const value = ownedBy(document, cluster, column);
  const written = column.aliases.find((alias) => document.virtual_clusters?.[cluster]?.cells?.[alias] !== undefined);
  return (
    <Slot field={`virtual_clusters.${cluster}.cells.${written ?? column.path}`} problems={problems}>
      {(attributes) => (
        <NumberInput
          {...attributes}
          {...(column.missing > 0 && value ? { "aria-invalid": true } : {})}
          aria-label={`${column.path} of ${cluster}`}
          min={0}
          placeholder="0"
          value={value}
          onChange={(count) => onChange(setCells(document, cluster, column.path, count, column.aliases))}
        />
      )}
    </Slot>
  );
}

function Left({ column, problem }: { column: Column; problem: string | undefined }) {
  return (
    <>
      {column.missing > 0 ? <strong className={styles.wrong}>{column.missing} too many</strong> : column.left}
      {problem !== undefined && <div className={styles.problem}>{problem}</div>}
    </>
  );
}

function describe(column: Column): string {
  if (column.chain === null) return "not in the hardware";
  return (column.isNode ? "node, " : "") + counted(column.gpus, "GPU");
}

function gpusText(gpus: Readonly<Record<string, number>> | undefined): string {
  const parts = Object.entries(gpus ?? {}).map(([model, count]) => `${count} ${model}`);
  return parts.join(", ") || "–";
}
