import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { virtualClusterCellsQuery } from "@/api/cell-queries";
import type { OwnedCells, VirtualCluster } from "@/api/schema";
import { cellsText } from "@/components/cells/cell-use";
import { counted } from "@/components/format";
import { ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { muted } from "@/ui/layout";
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
      {isOpen && <CellList name={cluster.name} />}
    </details>
  );
}

function CellList({ name }: { name: string }) {
  const query = useQuery(virtualClusterCellsQuery(name));
  if (query.isError) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  if (!query.data) return <SkeletonLines count={2} />;
  return (
    <ul aria-label={`Cells of ${name}`} className={styles.cellList}>
      {query.data.cells.map((cells) => (
        <Entry key={`${cells.chain} ${cells.type} ${cells.name}`} cells={cells} />
      ))}
    </ul>
  );
}

function Entry({ cells }: { cells: OwnedCells }) {
  const { owned, bound, free, doomed, pinned } = cells;
  return (
    <li>
      <p>
        <strong>{pinned ? cells.name : `${owned} × ${cells.type}`}</strong>{" "}
        <span className={muted}>
          {pinned ? `pinned ${cells.type}, ` : ""}
          {counted(cells.gpus, "GPU")}
          {owned > 1 ? " each" : ""}
        </span>
      </p>
      {!pinned && (
        <p>
          {bound} in use, {free} free
          {doomed > 0 && (
            <strong className={styles.doomed} title="They could only be had with bad hardware">
              , {doomed} doomed
            </strong>
          )}
        </p>
      )}
      {cells.addresses.length > 0 && (
        <p>
          {cells.addresses.map((address, index) => (
            <span key={address}>
              {index > 0 && ", "}
              <Link to="/cells" search={{ chain: cells.chain, at: address }}>
                {address}
              </Link>
            </span>
          ))}
        </p>
      )}
    </li>
  );
}
