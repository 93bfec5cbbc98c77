import { Link } from "@tanstack/react-router";

import type { ChainCells, ChainSummary } from "@/api/schema";
import { CellBar, tellUse } from "@/components/cells/cell-use";
import { counted } from "@/components/format";
import { CellTree } from "@/features/cells/cell-tree";
import styles from "@/features/cells/cells.module.css";
import { trailOf } from "@/features/cells/tree";
import { type Column, DataTable } from "@/ui/data-table";
import { muted, oneLine, Panel } from "@/ui/layout";

/** All hardware of one topmost type: what it comes to at each level, and the cells themselves. */
export function ChainPanel({ chain, at }: { chain: ChainSummary; at: string | undefined }) {
  return (
    <Panel title={chain.name} flush>
      <div className={styles.chain}>
        <p className={muted}>
          {counted(chain.gpus, "GPU")} of model {chain.gpu_model}: {tellUse(chain)}
        </p>
        <CellBar use={chain} />
      </div>
      <Levels chain={chain} />
      {at !== undefined && <Trail chain={chain.name} at={at} />}
      <CellTree key={at ?? ""} chain={chain.name} at={at} />
    </Panel>
  );
}

const FIGURES: readonly Column<ChainCells>[] = [
  { header: "Cells", isNumeric: true, cell: ({ total }) => total },
  { header: "Owned", headerTitle: "Owned by virtual clusters", isNumeric: true, cell: ({ owned }) => owned },
  { header: "Used", headerTitle: "Some of their GPUs are in use", isNumeric: true, cell: ({ used }) => used },
  { header: "Free", headerTitle: "None of their GPUs is in use", isNumeric: true, cell: ({ free }) => free },
  {
    header: "Bad",
    headerTitle: "Some of their GPUs are broken or out of service",
    isNumeric: true,
    cell: ({ bad }) => <Trouble count={bad} />,
  },
  {
    header: "Doomed",
    headerTitle: "Owned cells for which only bad hardware is left",
    isNumeric: true,
    cell: ({ doomed }) => <Trouble count={doomed} />,
  },
];

function Levels({ chain }: { chain: ChainSummary }) {
  const types = new Map(chain.types.map((type) => [type.level, type]));
  const levels = [...chain.cells].sort((a, b) => b.level - a.level);
  return (
    <DataTable
      label={`Levels of ${chain.name}`}
      rows={levels}
      rowKey={({ level }) => level}
      columns={[
        {
          header: "Level",
          className: oneLine,
          cell: ({ level, type }) => (
            <>
              {type} {types.get(level)?.is_node && <span className={muted}>node</span>}
              {level === 0 && <span className={muted}>GPU</span>}
            </>
          ),
        },
        { header: "GPUs each", isNumeric: true, cell: ({ level }) => types.get(level)?.gpus ?? "" },
        ...FIGURES,
      ]}
    />
  );
}

/** Zeros recede, so that trouble stands out. */
function Trouble({ count }: { count: number }) {
  return count === 0 ? <span className={muted}>0</span> : <strong className={styles.trouble}>{count}</strong>;
}

/** The way down to a cell; each step leads to the surroundings of that cell. */
function Trail({ chain, at }: { chain: string; at: string }) {
  return (
    <nav aria-label="The way to this cell" className={styles.trail}>
      <Link to="/cells" search={{}}>
        All cells
      </Link>
      {trailOf(at).map((address) => (
        <Link key={address} to="/cells" search={{ chain, at: address }}>
          {address.slice(address.lastIndexOf("/") + 1)}
        </Link>
      ))}
    </nav>
  );
}
