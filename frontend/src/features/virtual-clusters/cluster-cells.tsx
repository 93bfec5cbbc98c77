import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { virtualClusterCellsQuery } from "@/api/cell-queries";
import type { OwnedCells } from "@/api/cell-types";
import type { VirtualCluster } from "@/api/types";
import { cellsText } from "@/components/cells/cell-use";
import { ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { muted, numeric, oneLine, TableFrame } from "@/ui/layout";
import styles from "@/features/virtual-clusters/virtual-clusters.module.css";

/** The cells that a virtual cluster owns, and on request what has become of them. */
export function ClusterCells({ cluster }: { cluster: VirtualCluster }) {
  const [isOpen, setOpen] = useState(false);
  const pinned = Object.keys(cluster.pinned);
  if (Object.keys(cluster.cells).length + pinned.length === 0) return null;
  const counts = cellsText(cluster.cells);
  return (
    <details className={styles.cells} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>
        Cells:{" "}
        {[counts === "none" ? "" : counts, pinned.length > 0 ? `pinned ${pinned.join(", ")}` : ""]
          .filter(Boolean)
          .join(", ")}
      </summary>
      {isOpen && <CellTable name={cluster.name} />}
    </details>
  );
}

function CellTable({ name }: { name: string }) {
  const query = useQuery(virtualClusterCellsQuery(name));
  if (query.isError) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  if (!query.data) return <SkeletonLines count={2} />;
  return (
    <TableFrame label={`Cells of ${name}`}>
      <thead>
        <tr>
          <th>Type</th>
          <th className={numeric}>Owned</th>
          <th className={numeric}>In use</th>
          <th className={numeric}>Free</th>
          <th className={numeric} title="Free ones that only broken hardware is left for">
            Doomed
          </th>
          <th>Where</th>
        </tr>
      </thead>
      <tbody>
        {query.data.cells.map((cells) => (
          <Row key={`${cells.chain} ${cells.type} ${cells.name}`} cells={cells} />
        ))}
      </tbody>
    </TableFrame>
  );
}

function Row({ cells }: { cells: OwnedCells }) {
  return (
    <tr>
      <td className={oneLine}>
        {cells.pinned ? `${cells.name} ` : `${cells.type} `}
        <span className={muted}>{cells.pinned ? `pinned ${cells.type}` : `${cells.gpus} × GPU`}</span>
      </td>
      <td className={numeric}>{cells.owned}</td>
      <td className={numeric}>{cells.bound}</td>
      <td className={numeric}>{cells.free}</td>
      <td className={numeric}>{cells.doomed > 0 ? <strong className={styles.problem}>{cells.doomed}</strong> : 0}</td>
      <td>
        {cells.addresses.map((address, index) => (
          <span key={address}>
            {index > 0 && ", "}
            <Link to="/cells" search={{ chain: cells.chain, at: address }}>
              {address}
            </Link>
          </span>
        ))}
        {cells.addresses.length === 0 && <span className={muted}>nowhere yet</span>}
      </td>
    </tr>
  );
}
