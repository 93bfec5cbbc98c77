import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";

import { scalingQuery } from "@/api/queries";
import type { Job, JobScaling, ScalingAllocation, ScalingNow } from "@/api/schema";
import { Chart, ChartKey } from "@/components/chart";
import { count, counted } from "@/components/format";
import { useNow } from "@/components/now";
import styles from "@/features/job/scaling-panel.module.css";
import { ErrorNotice } from "@/ui/feedback";
import { Facts, muted, Panel } from "@/ui/layout";

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
  if (x.length === 0) return <p className={muted}>The job has not held GPUs yet.</p>;
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
    return <p className={muted}>Scaling is not known yet. The platform measures it from the progress lines.</p>;
  }
  return (
    <section>
      <h3 className={styles.title}>Speedup by GPUs on {scaling.gpu_model}; the line is today's number</h3>
      <Chart label="Speedup by GPUs" x={x} series={series} isTime={false} xLabel="GPUs" height={HEIGHT} marks={marks} />
      <ChartKey series={series} />
      <p className={`${muted} ${styles.evidence}`}>{evidenceText(scaling)}</p>
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

/** A step is drawn as two points so near that they look like one. */
const INSTANT_SECONDS = 0.001;

/** GPUs over time: a level for as long as an attempt had them, and none in between. */
export function gpuSteps(
  allocations: readonly ScalingAllocation[],
  nowSeconds: number,
): { x: number[]; values: number[] } {
  const x: number[] = [];
  const values: number[] = [];
  const add = (at: number, gpus: number) => {
    x.push(Math.max(at, (x.at(-1) ?? -Infinity) + INSTANT_SECONDS));
    values.push(gpus);
  };
  for (const { since, until, gpus } of allocations) {
    if (x.length > 0) add(secondsOf(since) - INSTANT_SECONDS, 0);
    add(secondsOf(since), gpus);
    add(until === null ? nowSeconds : secondsOf(until), gpus);
    if (until !== null) add(secondsOf(until) + INSTANT_SECONDS, 0);
  }
  return { x, values };
}

function secondsOf(time: string): number {
  return new Date(time).getTime() / 1000;
}

/** What the job may have: "1 to 8 GPUs, adaptive". */
function rangeText({ is_elastic, min_gpus, gpus, max_gpus, mode }: JobScaling): string {
  if (!is_elastic) return counted(gpus, "GPU");
  return `${min_gpus} to ${counted(max_gpus, "GPU")}, ${(mode ?? "").replaceAll("_", " ")}`;
}

/** Batch, learning rate, efficiency and goodput now. */
function factsOfNow(now: ScalingNow): [string, string][] {
  const divided = now.accumulation > 0 ? `, ${now.accumulation + 1} gradients each` : "";
  const facts: [string, string][] = [
    ["Batch", `${count(now.batch_size)} (${count(now.local_batch)} a gradient${divided})`],
    ["Learning rate", `× ${now.lr_factor.toFixed(2)}`],
  ];
  if (now.efficiency !== null) facts.push(["Efficiency", `${Math.round(100 * now.efficiency)} %`]);
  if (now.goodput !== null) facts.push(["Goodput", `${count(now.goodput)} samples/s`]);
  if (now.overhead !== null) facts.push(["Measuring takes", `${(100 * now.overhead).toFixed(1)} %`]);
  if (now.speedup !== null)
    facts.push(["Predicted speedup", `${now.speedup.toFixed(2)} with ${counted(now.gpus, "GPU")}`]);
  return facts;
}

/** What the prediction rests on, in one sentence. */
function evidenceText({ rests_on }: JobScaling): string {
  if (!rests_on) return "";
  const { ways, iterations, most_replicas } = rests_on;
  return (
    `By ${counted(ways, "way")} of running, timed over ${count(iterations)} iterations with up to ` +
    `${counted(most_replicas, "replica")}; what was not tried is believed to be as good as can be.`
  );
}
