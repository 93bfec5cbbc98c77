import type { ThroughputCell, ThroughputRow } from "@/api/schema";
import { Tag } from "@/components/state-badge";
import { isGuess, jobClassOf, partnersText, percent, SourceMark, sourceText } from "@/components/throughputs/sources";
import { PartBar } from "@/components/use-bar";
import { type Chosen, describe, keyOf, throughputOn, valueText } from "@/features/throughputs/rows";
import styles from "@/features/throughputs/throughputs-page.module.css";
import { type Column, DataTable, type DataTableProps } from "@/ui/data-table";
import { muted } from "@/ui/layout";

interface ThroughputTableProps extends Pick<DataTableProps<ThroughputRow>, "query" | "empty"> {
  rows: readonly ThroughputRow[];
  models: readonly string[];
  onChoose: (chosen: Chosen) => void;
}

/** Job classes by GPU models; a cell opens what is known of it. */
export function ThroughputTable({ rows, models, onChoose, ...rest }: ThroughputTableProps) {
  return (
    <DataTable
      label="Throughputs by job class and GPU model"
      rows={rows}
      rowKey={keyOf}
      columns={[
        { header: "Job class", isRowHeader: true, cell: (row) => <JobClass row={row} /> },
        { header: "GPUs", isNumeric: true, cell: (row) => row.gpus },
        ...models.map((model): Column<ThroughputRow> => ({
          id: `model ${model}`,
          header: model,
          className: styles.cell,
          cell: (row) => <Cell row={row} model={model} throughput={throughputOn(row, model)} onChoose={onChoose} />,
        })),
      ]}
      {...rest}
    />
  );
}

function JobClass({ row }: { row: ThroughputRow }) {
  const { name, byName } = jobClassOf(row.application);
  return (
    <div className={styles.jobClass}>
      {name} <span className={muted}>{row.tenant}</span>{" "}
      {byName && <Tag title="These jobs declare no application: jobs of the same name form one class">by name</Tag>}{" "}
      {row.spread && <Tag title="On more nodes than it needs">spread</Tag>}
      {row.gpu_limit < 1 && (
        <Tag title="These jobs have parts of GPUs; this is their limit on each">{percent(row.gpu_limit)} of a GPU</Tag>
      )}
      {row.partner && <div className={muted}>beside {partnersText(row.partner)}</div>}
    </div>
  );
}

interface CellProps {
  row: ThroughputRow;
  model: string;
  throughput: ThroughputCell | undefined;
  onChoose: (chosen: Chosen) => void;
}

function Cell({ row, model, throughput, onChoose }: CellProps) {
  const value = throughput?.value ?? null;
  const source = throughput?.source ?? null;
  if (!throughput || (value === null && !row.may_correct)) return <span className={muted}>–</span>;
  const guess = isGuess(source);
  const shown = value === null ? "–" : `${guess ? "≈ " : ""}${valueText(row, value)}`;
  return (
    <button
      type="button"
      className={styles.throughput}
      // Contains what the button shows, so that speech control finds it.
      aria-label={`${describe(row, model)}: ${shown}, ${sourceText(source, throughput.samples)}`}
      onClick={() => onChoose({ row, gpu_model: model })}
    >
      <span className={styles.figure}>
        <span data-guess={guess || undefined}>{shown}</span>{" "}
        <SourceMark source={source} samples={throughput.samples} confidence={throughput.confidence} />
      </span>
      <PartBar part={(row.partner ? value : throughput.relative) ?? 0} guess={guess} />
    </button>
  );
}
