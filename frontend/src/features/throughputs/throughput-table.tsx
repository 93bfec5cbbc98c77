import type { SpeedCell, SpeedRow } from "@/api/schema";
import { Tag } from "@/components/state-badge";
import { isGuess, kindOf } from "@/components/speeds/sources";
import { SourceMark } from "@/components/speeds/source-mark";
import { PartBar } from "@/components/use-bar";
import { describe, keyOf, speedOn, valueText, type Chosen } from "@/features/speeds/rows";
import { DataTable, type Column, type DataTableProps } from "@/ui/data-table";
import { muted } from "@/ui/layout";
import styles from "@/features/speeds/speeds-page.module.css";

interface SpeedTableProps extends Pick<DataTableProps<SpeedRow>, "query" | "empty"> {
  rows: readonly SpeedRow[];
  models: readonly string[];
  onChoose: (chosen: Chosen) => void;
}

/** Kinds of job by GPU models; a cell opens what is known of it. */
export function SpeedTable({ rows, models, onChoose, ...rest }: SpeedTableProps) {
  return (
    <DataTable
      label="Speeds by kind of job and GPU model"
      rows={rows}
      rowKey={keyOf}
      columns={[
        { header: "Kind of job", isRowHeader: true, cell: (row) => <Kind row={row} /> },
        { header: "GPUs", isNumeric: true, cell: (row) => row.gpus },
        ...models.map((model): Column<SpeedRow> => ({
          id: `model ${model}`,
          header: model,
          className: styles.cell,
          cell: (row) => <Cell row={row} model={model} speed={speedOn(row, model)} onChoose={onChoose} />,
        })),
      ]}
      {...rest}
    />
  );
}

function Kind({ row }: { row: SpeedRow }) {
  const { name, byName } = kindOf(row.application);
  return (
    <div className={styles.kind}>
      {name} <span className={muted}>{row.tenant}</span>{" "}
      {byName && (
        <Tag title="These jobs state no application: jobs of one name are taken to be of one kind">by name</Tag>
      )}{" "}
      {row.spread && <Tag title="Over more nodes than it needs">spread</Tag>}
      {row.partner && <div className={muted}>beside {kindOf(row.partner).name}</div>}
    </div>
  );
}

interface CellProps {
  row: SpeedRow;
  model: string;
  speed: SpeedCell | undefined;
  onChoose: (chosen: Chosen) => void;
}

function Cell({ row, model, speed, onChoose }: CellProps) {
  const value = speed?.value ?? null;
  const source = speed?.source ?? null;
  if (!speed || (value === null && !row.may_correct)) return <span className={muted}>–</span>;
  const guess = isGuess(source);
  return (
    <button
      type="button"
      className={styles.speed}
      aria-label={`${describe(row, model)}: ${value === null ? "not known" : `${valueText(row, value)}, ${source ?? "assumed"}`}`}
      onClick={() => onChoose({ row, gpu_model: model })}
    >
      <span className={styles.figure}>
        <span data-guess={guess || undefined}>
          {value === null ? "–" : `${guess ? "≈ " : ""}${valueText(row, value)}`}
        </span>
        <SourceMark source={source} samples={speed.samples} confidence={speed.confidence} />
      </span>
      <PartBar part={(row.partner ? value : speed.relative) ?? 0} guess={guess} />
    </button>
  );
}
