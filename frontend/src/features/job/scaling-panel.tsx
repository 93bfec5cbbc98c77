import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";

import { scalingQuery } from "@/api/queries";
import type { Job, JobScaling } from "@/api/schema";
import { Chart, ChartKey } from "@/components/chart";
import { evidenceText, factsOfNow, gpuSteps, rangeText } from "@/features/job/scaling";
import { useNow } from "@/components/now";
import { ErrorNotice } from "@/ui/feedback";
import { Facts, muted, Panel } from "@/ui/layout";
import styles from "@/features/job/scaling-panel.module.css";

const LOOK_AGAIN_MS = 10_000;
const HEIGHT = 180;

/** Of a job that may be resized, or whose batch changes: the GPUs that it had, and what more or fewer would do. */
export function ScalingPanel({ job }: { job: Job }) {
  const query = useQuery({ ...scalingQuery(job.id), refetchInterval: job.ended_at === null ? LOOK_AGAIN_MS : false });
  const { refetch } = query;
  useEffect(() => void refetch(), [job.version, refetch]);
  const scaling = query.data;
  if (query.isError) {
    return (
      <Panel title="Scaling">
        <ErrorNotice error={query.error} onRetry={() => void refetch()} />
      </Panel>
    );
  }
  if (!scaling || (!scaling.is_elastic && !scaling.now)) return null;
  return (
    <Panel title="Scaling" actions={<span className={muted}>{rangeText(scaling)}</span>}>
      {scaling.now && <Facts facts={factsOfNow(scaling.now)} />}
      <div className={styles.charts}>
        <GpusOverTime scaling={scaling} />
        <SpeedupCurve scaling={scaling} />
      </div>
      <Resizes scaling={scaling} />
    </Panel>
  );
}

function GpusOverTime({ scaling }: { scaling: JobScaling }) {
  const now = Math.round(useNow() / LOOK_AGAIN_MS) * (LOOK_AGAIN_MS / 1000);
  const { allocations, max_gpus } = scaling;
  const { x, values } = useMemo(() => gpuSteps(allocations, now), [allocations, now]);
  const series = useMemo(() => [{ label: "GPUs", token: "crop-1", values }], [values]);
  if (x.length === 0) return <p className={muted}>It has had no GPUs yet.</p>;
  return (
    <section>
      <h3 className={styles.title}>GPUs over time</h3>
      <Chart label="GPUs over time" x={x} series={series} height={HEIGHT} ceiling={max_gpus} />
    </section>
  );
}

function SpeedupCurve({ scaling }: { scaling: JobScaling }) {
  const { curve, now } = scaling;
  const x = useMemo(() => curve.map(({ gpus }) => gpus), [curve]);
  const series = useMemo(
    () => [
      { label: "Predicted", token: "crop-1", values: curve.map(({ speedup }) => speedup) },
      {
        label: "Perfect",
        token: "crop-2",
        dashed: true,
        values: curve.map(({ gpus }) => gpus / (curve[0]?.gpus ?? 1)),
      },
    ],
    [curve],
  );
  const marks = useMemo(() => (now ? [now.gpus] : []), [now]);
  if (curve.length < 2) {
    return <p className={muted}>How it scales is not known yet: its progress lines tell it.</p>;
  }
  return (
    <section>
      <h3 className={styles.title}>Speedup by GPUs on {scaling.gpu_model}; the line is today's number</h3>
      <Chart label="Speedup by GPUs" x={x} series={series} isTime={false} xLabel="GPUs" height={HEIGHT} marks={marks} />
      <ChartKey series={series} />
      <p className={muted}>{evidenceText(scaling)}</p>
    </section>
  );
}

/** Why it was resized, the latest first. */
function Resizes({ scaling }: { scaling: JobScaling }) {
  const resized = scaling.allocations.filter(({ why }) => why).slice(-RESIZES_SHOWN);
  if (resized.length === 0) return null;
  return (
    <ul aria-label="Why it was resized" className={styles.resizes}>
      {resized.reverse().map(({ attempt, why }) => (
        <li key={attempt}>
          Attempt {attempt}: {why}
        </li>
      ))}
    </ul>
  );
}

const RESIZES_SHOWN = 5;
