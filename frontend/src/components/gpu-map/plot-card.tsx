import { duration, secondsBetween } from "@/components/format";
import { STATE_TEXT } from "@/components/gpu-map/garden";
import type { Hit } from "@/components/gpu-map/layout";
import { useNow } from "@/components/now";
import styles from "@/components/gpu-map/gpu-map.module.css";

const CARD_WIDTH = 248;

/** What is known of the GPU under the pointer. */
export function PlotCard({ hit, layoutWidth }: { hit: Hit; layoutWidth: number }) {
  const now = useNow();
  if (!hit.plot) return null;
  const { gpu, job, successor, state } = hit.plot.plot;
  const { node } = hit.bed.bed;
  const left = Math.max(0, Math.min(hit.plot.x + hit.plot.width / 2 - CARD_WIDTH / 2, layoutWidth - CARD_WIDTH));
  const runs = job ? secondsBetween(job.attempt?.running_at ?? null, null, now) : null;
  return (
    <div className={styles.card} style={{ left, top: hit.plot.y + hit.plot.height + 8, width: CARD_WIDTH }} aria-hidden>
      <p className={styles.where}>
        {node.name} · GPU {gpu.index} · {node.gpu_model}
      </p>
      {job ? (
        <>
          <p className={styles.job}>
            {job.name} <span>#{job.id}</span>
          </p>
          <p>
            {job.tenant} · {job.virtual_cluster} · {job.guarantee}
          </p>
          <p>
            {STATE_TEXT[state]}
            {runs !== null && ` for ${duration(runs)}`} · {job.gpus} GPUs in all
          </p>
        </>
      ) : (
        <p>{STATE_TEXT[state]}</p>
      )}
      {successor && (
        <p>
          Next: {successor.name} #{successor.id} of {successor.tenant}
        </p>
      )}
      {gpu.problem && <p className={styles.problem}>{gpu.problem}</p>}
    </div>
  );
}
