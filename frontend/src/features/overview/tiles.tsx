import { Link } from "@tanstack/react-router";
import { type ReactNode, useId } from "react";

import { count, counted, duration, secondsBetween } from "@/components/format";
import type { Tally } from "@/components/gpu-map/garden";
import { useNow } from "@/components/now";
import { PartBar } from "@/components/use-bar";
import { Skeleton } from "@/ui/feedback";
import styles from "@/features/overview/overview-page.module.css";

export interface ActiveCounts {
  queued: number;
  running: number;
}

interface TilesProps {
  tally: Tally;
  /** Undefined until they are known. */
  jobs: ActiveCounts | undefined;
  /** When the longest waiting job was submitted. */
  oldestWait: string | null;
  /** Whether the jobs are those of all tenants. GPUs and nodes are the whole cluster's for everyone. */
  seesAll: boolean;
  loading: boolean;
}

/** The viewer's jobs and the whole cluster in a few numbers each. All come from the data of the map and the queue, so that they agree with them. */
export function Tiles({ tally, jobs, oldestWait, seesAll, loading }: TilesProps) {
  const { nodes, ready, lost, closed, gpus, held, seen, byState, byTenant } = tally;
  const unhealthy = byState.get("unhealthy") ?? 0;
  const now = useNow();
  const longest = secondsBetween(oldestWait, null, now);
  const wait = loading && nodes === 0;
  return (
    <div className={styles.groups}>
      <Group title={seesAll ? "Jobs of all tenants" : "Your tenants"}>
        <div className={styles.tile}>
          <span className={styles.tileLabel}>{seesAll ? "GPUs held by jobs" : "GPUs held by your jobs"}</span>
          <span className={styles.tileValue}>{wait ? <Skeleton width="4rem" /> : count(seen)}</span>
          <span className={styles.tileNote}>
            {seesAll && byTenant.size > 0 && `of ${counted(byTenant.size, "tenant")}`}
          </span>
        </div>
        <Link to="/jobs" search={{ state: "running" }} className={styles.tile}>
          <span className={styles.tileLabel}>Running jobs</span>
          <span className={styles.tileValue}>{jobs ? count(jobs.running) : <Skeleton width="2rem" />}</span>
        </Link>
        <Link to="/jobs" search={{ state: "queued" }} className={styles.tile}>
          <span className={styles.tileLabel}>Queued jobs</span>
          <span className={styles.tileValue}>{jobs ? count(jobs.queued) : <Skeleton width="2rem" />}</span>
          <span className={styles.tileNote}>{longest !== null && `longest wait ${duration(longest)}`}</span>
        </Link>
      </Group>
      <Group title="Whole cluster">
        <div className={styles.tile}>
          <span className={styles.tileLabel}>GPUs in use</span>
          <span className={styles.tileValue}>
            {wait ? <Skeleton width="4rem" /> : count(held)} {!wait && <small>of {count(gpus)}</small>}
          </span>
          <div className={styles.gauge}>
            <PartBar part={gpus > 0 ? held / gpus : 0} />
          </div>
          {unhealthy > 0 && <span className={`${styles.tileNote} ${styles.warning}`}>{unhealthy} unhealthy</span>}
        </div>
        <Link to="/nodes" className={styles.tile}>
          <span className={styles.tileLabel}>Nodes ready</span>
          <span className={styles.tileValue}>
            {wait ? <Skeleton width="3rem" /> : ready} {!wait && <small>of {nodes}</small>}
          </span>
          <span className={styles.tileNote}>
            {lost > 0 && <span className={styles.warning}>{lost} lost </span>}
            {closed > 0 && `${closed} closed to jobs`}
          </span>
        </Link>
      </Group>
    </div>
  );
}

function Group({ title, children }: { title: string; children: ReactNode }) {
  const id = useId();
  return (
    <section className={styles.group} aria-labelledby={id}>
      <h2 id={id}>{title}</h2>
      <div className={styles.tiles}>{children}</div>
    </section>
  );
}
