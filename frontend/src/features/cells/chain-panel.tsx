import type { ChainLevel, ChainSummary } from "@/api/cell-types";
import { CellBar } from "@/components/cells/cell-bar";
import { tellUse } from "@/components/cells/cell-use";
import { counted } from "@/components/format";
import { CellTree } from "@/features/cells/cell-tree";
import { Trail } from "@/features/cells/trail";
import { muted, numeric, oneLine, Panel, TableFrame } from "@/ui/layout";
import styles from "@/features/cells/cells.module.css";

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

function Levels({ chain }: { chain: ChainSummary }) {
  const types = new Map(chain.types.map((type) => [type.level, type]));
  const levels = [...chain.cells].sort((a, b) => b.level - a.level);
  return (
    <TableFrame label={`Levels of ${chain.name}`}>
      <thead>
        <tr>
          <th>Level</th>
          <th className={numeric}>GPUs each</th>
          <th className={numeric}>Cells</th>
          <th className={numeric} title="Owned by virtual clusters">
            Owned
          </th>
          <th className={numeric} title="Some of their GPUs are in use">
            Used
          </th>
          <th className={numeric} title="None of their GPUs is in use">
            Free
          </th>
          <th className={numeric} title="Some of their GPUs are broken or out of service">
            Bad
          </th>
          <th className={numeric} title="Owned ones that could only be had with bad hardware">
            Doomed
          </th>
        </tr>
      </thead>
      <tbody>
        {levels.map((level) => (
          <LevelRow key={level.level} level={level} type={types.get(level.level)} />
        ))}
      </tbody>
    </TableFrame>
  );
}

function LevelRow({ level, type }: { level: ChainLevel; type: ChainSummary["types"][number] | undefined }) {
  return (
    <tr>
      <td className={oneLine}>
        {level.type} {type?.is_node && <span className={muted}>node</span>}
        {level.level === 0 && <span className={muted}>GPU</span>}
      </td>
      <td className={numeric}>{type?.gpus ?? ""}</td>
      <td className={numeric}>{level.total}</td>
      <td className={numeric}>{level.owned}</td>
      <td className={numeric}>{level.used}</td>
      <td className={numeric}>{level.free}</td>
      <td className={numeric}>
        <Trouble count={level.bad} />
      </td>
      <td className={numeric}>
        <Trouble count={level.doomed} />
      </td>
    </tr>
  );
}

/** Zeros recede, so that trouble stands out. */
function Trouble({ count }: { count: number }) {
  return count === 0 ? <span className={muted}>0</span> : <strong className={styles.trouble}>{count}</strong>;
}
