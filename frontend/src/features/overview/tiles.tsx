import { Link } from "@tanstack/react-router";

import type { Cluster } from "@/api/schema";
import { count, counted, duration, secondsBetween } from "@/components/format";
import type { Rack } from "@/components/gpu-map/garden";
import { useNow } from "@/components/now";
import { PartBar } from "@/components/use-bar";
import { Skeleton } from "@/ui/feedback";
import styles from "@/features/overview/overview-page.module.css";

interface TilesProps {
  racks: readonly Rack[];
  cluster: Cluster | undefined;
  /** When the longest waiting job was submitted. */
  oldestWait: string | null;
  /** Whether the jobs are those of all tenants. GPUs and nodes are the whole cluster's for everyone. */
  seesAll: boolean;
  loading: boolean;
}

/** The cluster in four numbers. GPUs and nodes come from the map's own data, so that they agree with it. */
export function Tiles({ racks, cluster, oldestWait, seesAll, loading }: TilesProps) {
  const beds = racks.flatMap((rack) => rack.beds);
  const gpus = beds.flatMap((bed) => bed.plots);
  const held = gpus.filter((plot) => plot.gpu.state === "held").length;
  const broken = gpus.filter((plot) => plot.state === "unhealthy").length;
  const lost = beds.filter((bed) => bed.node.state === "lost").length;
  const cordoned = beds.filter((bed) => bed.node.cordoned).length;
  const now = useNow();
  const longest = secondsBetween(oldestWait, null, now);
  const tenants = new Set(gpus.flatMap(({ job }) => (job ? [job.tenant] : []))).size;
  const wait = loading && beds.length === 0;
  return (
    <div className={styles.tiles}>
      <div className={styles.tile}>
        <span className={styles.tileLabel}>GPUs in use, whole cluster</span>
        <span className={styles.tileValue}>
          {wait ? <Skeleton width="4rem" /> : count(held)} {!wait && <small>of {count(gpus.length)}</small>}
        </span>
        <div className={styles.gauge}>
          <PartBar part={gpus.length > 0 ? held / gpus.length : 0} />
        </div>
        {broken > 0 && <span className={`${styles.tileNote} ${styles.warning}`}>{broken} unhealthy</span>}
      </div>
      <Link to="/jobs" search={{ state: "running" }} className={styles.tile}>
        <span className={styles.tileLabel}>{seesAll ? "Running jobs" : "Your tenants' running jobs"}</span>
        <span className={styles.tileValue}>{cluster ? count(cluster.jobs.running) : <Skeleton width="2rem" />}</span>
        <span className={styles.tileNote}>{seesAll && tenants > 0 && `of ${counted(tenants, "tenant")}`}</span>
      </Link>
      <Link to="/jobs" search={{ state: "queued" }} className={styles.tile}>
        <span className={styles.tileLabel}>{seesAll ? "Queued jobs" : "Your tenants' queued jobs"}</span>
        <span className={styles.tileValue}>{cluster ? count(cluster.jobs.queued) : <Skeleton width="2rem" />}</span>
        <span className={styles.tileNote}>{longest !== null && `longest wait ${duration(longest)}`}</span>
      </Link>
      <Link to="/nodes" className={styles.tile}>
        <span className={styles.tileLabel}>Nodes ready</span>
        <span className={styles.tileValue}>
          {wait ? <Skeleton width="3rem" /> : beds.filter((bed) => bed.node.state === "ready").length}{" "}
          {!wait && <small>of {beds.length}</small>}
        </span>
        <span className={styles.tileNote}>
          {lost > 0 && <span className={styles.warning}>{lost} lost </span>}
          {cordoned > 0 && `${cordoned} cordoned`}
        </span>
      </Link>
    </div>
  );
}
