import { Link } from "@tanstack/react-router";
import { type ReactNode, useId, useMemo } from "react";

import { count, counted, duration, secondsBetween } from "@/components/format";
import { jobsOn, type Rack } from "@/components/gpu-map/garden";
import { useNow } from "@/components/now";
import { PartBar } from "@/components/use-bar";
import { Skeleton } from "@/ui/feedback";
import styles from "@/features/overview/overview-page.module.css";

export interface ActiveCounts {
  queued: number;
  running: number;
}

interface TilesProps {
  racks: readonly Rack[];
  /** Undefined until they are known. */
  jobs: ActiveCounts | undefined;
  /** When the longest waiting job was submitted. */
  oldestWait: string | null;
  /** Whether the jobs are those of all tenants. GPUs and nodes are the whole cluster's for everyone. */
  seesAll: boolean;
  loading: boolean;
}

/** The viewer's jobs and the whole cluster in a few numbers each. All come from the data of the map and the queue, so that they agree with them. */
export function Tiles({ racks, jobs, oldestWait, seesAll, loading }: TilesProps) {
  const { nodes, ready, lost, cordoned, gpus, held, broken, own, tenants } = useMemo(() => numbersOf(racks), [racks]);
  const now = useNow();
  const longest = secondsBetween(oldestWait, null, now);
  const wait = loading && nodes === 0;
  return (
    <div className={styles.groups}>
      <Group title={seesAll ? "Jobs of all tenants" : "Your tenants"}>
        <div className={styles.tile}>
          <span className={styles.tileLabel}>{seesAll ? "GPUs held by jobs" : "GPUs held by your jobs"}</span>
          <span className={styles.tileValue}>{wait ? <Skeleton width="4rem" /> : count(own)}</span>
          <span className={styles.tileNote}>{seesAll && tenants > 0 && `of ${counted(tenants, "tenant")}`}</span>
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
          {broken > 0 && <span className={`${styles.tileNote} ${styles.warning}`}>{broken} unhealthy</span>}
        </div>
        <Link to="/nodes" className={styles.tile}>
          <span className={styles.tileLabel}>Nodes ready</span>
          <span className={styles.tileValue}>
            {wait ? <Skeleton width="3rem" /> : ready} {!wait && <small>of {nodes}</small>}
          </span>
          <span className={styles.tileNote}>
            {lost > 0 && <span className={styles.warning}>{lost} lost </span>}
            {cordoned > 0 && `${cordoned} cordoned`}
          </span>
        </Link>
      </Group>
    </div>
  );
}

function numbersOf(racks: readonly Rack[]) {
  const found = { nodes: 0, ready: 0, lost: 0, cordoned: 0, gpus: 0, held: 0, broken: 0, own: 0 };
  const tenants = new Set<string>();
  for (const { beds } of racks) {
    for (const { node, plots } of beds) {
      found.nodes += 1;
      found.gpus += plots.length;
      if (node.state === "ready") found.ready += 1;
      if (node.state === "lost") found.lost += 1;
      if (node.cordoned) found.cordoned += 1;
      for (const plot of plots) {
        if (plot.gpu.state === "held") found.held += 1;
        if (plot.state === "unhealthy") found.broken += 1;
        const jobs = jobsOn(plot);
        // A GPU of which jobs have parts counts once, as it does for the cluster.
        if (jobs.length > 0) found.own += 1;
        for (const { tenant } of jobs) tenants.add(tenant);
      }
    }
  }
  return { ...found, tenants: tenants.size };
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
