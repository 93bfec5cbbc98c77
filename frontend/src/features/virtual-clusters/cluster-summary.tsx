/** What a virtual cluster has: guarantees and their use, loans, preemptions, cells. */

import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { virtualClusterCellsQuery } from "@/api/cell-queries";
import { answerOf, api } from "@/api/client";
import type { OwnedCells, VirtualCluster, VirtualClusterPreemptions } from "@/api/schema";
import { cellsText } from "@/components/cells/cell-use";
import { clockAhead, counted, duration, gpuHours, lotText } from "@/components/format";
import { useNow } from "@/components/now";
import styles from "@/features/virtual-clusters/virtual-clusters.module.css";
import { ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { Key } from "@/ui/key";
import { muted } from "@/ui/layout";

/** For each GPU model what is guaranteed, what of it is in use, and what is borrowed beyond. */
export function GuaranteeBars({ cluster, totals }: { cluster: VirtualCluster; totals: ReadonlyMap<string, number> }) {
  const models = [...new Set([...Object.keys(cluster.guaranteed), ...Object.keys(cluster.usage)])].sort();
  if (models.length === 0) return <p className={styles.none}>No guarantee: its jobs run as opportunistic jobs.</p>;
  return (
    <ul className={styles.bars}>
      {models.map((model) => {
        const guaranteed = cluster.guaranteed[model] ?? 0;
        const used = cluster.usage[model]?.guaranteed_in_use ?? 0;
        const borrowed = cluster.usage[model]?.opportunistic_in_use ?? 0;
        const scale = Math.max(1, totals.get(model) ?? 0, guaranteed + borrowed);
        const share = (gpus: number) => `${(100 * gpus) / scale}%`;
        return (
          <li key={model}>
            <span className={styles.model}>{model}</span>
            <span className={styles.track} aria-hidden>
              <span className={styles.used} style={{ width: share(used) }} />
              <span className={styles.idle} style={{ width: share(Math.max(0, guaranteed - used)) }} />
              <span className={styles.borrowed} style={{ width: share(borrowed) }} />
            </span>
            <span className={styles.figures}>{figures(used, guaranteed, borrowed)}</span>
          </li>
        );
      })}
    </ul>
  );
}

function figures(used: number, guaranteed: number, borrowed: number): string {
  const own = guaranteed > 0 ? `${used} of ${guaranteed}` : "";
  return [own, borrowed > 0 ? `${borrowed} opportunistic` : ""].filter(Boolean).join(" + ");
}

export function BarsKey() {
  return (
    <Key className={styles.key}>
      <li>
        <span className={styles.used} /> guaranteed, in use
      </li>
      <li>
        <span className={styles.idle} /> guaranteed, idle
      </li>
      <li>
        <span className={styles.borrowed} /> opportunistic, beyond the guarantee
      </li>
      <li>
        <span className={styles.rest} /> the rest of the cluster
      </li>
    </Key>
  );
}

/** What of its own others have at present, and what it has of theirs. */
export function LoanList({ cluster: { name, lent, borrowed } }: { cluster: VirtualCluster }) {
  const now = useNow();
  if (lent.length + borrowed.length === 0) return null;
  return (
    <ul className={styles.loans} aria-label={`Loans of ${name}`}>
      {lent.map(({ loan, lot, to, ends_at: ends }) => (
        <li key={loan}>
          <strong>Lent</strong> {lotText(lot)} to {to} until {clockAhead(ends, now)}
        </li>
      ))}
      {borrowed.map(({ loan, lot, from, ends_at: ends }) => (
        <li key={loan}>
          <strong>Borrowed</strong> {lotText(lot)} from {from} until {clockAhead(ends, now)}
        </li>
      ))}
      <li>
        <Link to="/market">Market</Link>
      </li>
    </ul>
  );
}

const LOOK_AGAIN_MS = 60_000;

/** After how long attempts of a virtual cluster may be displaced, in words. */
export function leastRun(cluster: VirtualCluster): string {
  const { min_run_seconds: least, reclaim_min_run_seconds: reclaim } = cluster;
  const policies = least > 0 ? `${duration(least)} for policies` : "none for policies";
  return reclaim > 0 ? `${policies}, ${duration(reclaim)} for a guarantee` : policies;
}

/** How far CPUs and memory that its jobs do not use are lent, and how often more was used than was predicted. */
export function lending(cluster: VirtualCluster): string {
  const seen = cluster.overcommit_violations;
  const measured = seen
    ? `exceeded in ${percent(seen.rate)} of ${counted(seen.samples, "sample")} of 7 days`
    : "nothing measured yet";
  return `beyond the predicted peak and ${percent(cluster.overcommit_margin)} of each node; ${measured}`;
}

function percent(part: number): string {
  return `${Number((100 * part).toFixed(2))}%`;
}

/** How often jobs of a virtual cluster were preempted in the last day, and what that cost. */
export function PreemptionsOf({ name }: { name: string }) {
  const { data } = useQuery({
    queryKey: ["preemptions", name],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/virtual-clusters/{name}/preemptions", { params: { path: { name } }, signal })),
    refetchInterval: LOOK_AGAIN_MS,
  });
  if (!data) return null;
  return <>{preempted(data)}</>;
}

type PreemptionCost = Pick<
  VirtualClusterPreemptions,
  "preemptions" | "hours" | "lost_gpu_hours" | "overhead_gpu_hours"
>;

/** "never in the last 24 hours", "3 times in the last 24 hours; lost work and restarts: 1.2 GPU h". A cost of nothing is left out. */
export function preempted({
  preemptions,
  hours,
  lost_gpu_hours: lost,
  overhead_gpu_hours: overhead,
}: PreemptionCost): string {
  const often = preemptions === 0 ? "never" : counted(preemptions, "time");
  const seconds = 3600 * (lost + overhead);
  const cost = seconds < 0.05 ? "" : `; lost work and restarts: ${gpuHours(seconds)}`;
  return `${often} in the last ${hours} hours${cost}`;
}

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
            <strong className={styles.doomed} title="Only bad hardware is left for them">
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
