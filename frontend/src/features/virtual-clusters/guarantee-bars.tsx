import type { VirtualCluster } from "@/api/schema";
import { Key } from "@/ui/key";
import styles from "@/features/virtual-clusters/virtual-clusters.module.css";

/** For each GPU model what is guaranteed, what of it is in use, and what is borrowed beyond. */
export function GuaranteeBars({ cluster, totals }: { cluster: VirtualCluster; totals: ReadonlyMap<string, number> }) {
  const models = [...new Set([...Object.keys(cluster.guaranteed), ...Object.keys(cluster.usage)])].sort();
  if (models.length === 0)
    return <p className={styles.none}>Nothing is guaranteed: its jobs run as opportunistic ones.</p>;
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
