import { useMemo } from "react";

import type { NodeMetricsAnswer, Series } from "@/api/schema";
import { Chart, ChartKey, type ChartSeries } from "@/components/chart";
import { curvesOf } from "@/components/metrics/curves";
import gpuMeasures from "@/components/metrics/gpu-measures.json";
import { Notice } from "@/ui/feedback";
import styles from "@/components/metrics/metrics.module.css";

/** What is shown, in this order; what nobody told is left out. */
const CHARTS: readonly (readonly [Series["kind"], string, string])[] = [
  ...gpuMeasures.map(({ measure, title }) => ["gpu", measure, title] as const),
  ["replica", "cpus_used", "CPUs used by a replica"],
  ["replica", "memory_used_bytes", "Memory used by a replica"],
  ["replica", "gpu_memory_bytes", "GPU memory used by a replica"],
  ["replica", "processes", "Processes of a replica"],
  ["host", "cpu_percent", "CPU of the machine"],
  ["host", "memory_used_bytes", "Memory of the machine"],
  ["host", "network_received_bytes_per_second", "Network, received"],
  ["host", "network_sent_bytes_per_second", "Network, sent"],
  ["host", "disk_read_bytes_per_second", "Disks, read"],
  ["host", "disk_written_bytes_per_second", "Disks, written"],
  ["host", "disk_used_bytes", "Disk of the work folder, used"],
];

/** A chart for each measure, with bands from the lowest to the highest reading. `marks`: Unix seconds. */
export function MeasureCharts({ metrics, marks }: { metrics: NodeMetricsAnswer; marks?: readonly number[] }) {
  const shown = CHARTS.flatMap(([kind, measure, title]) => {
    const series = metrics.series.filter((one) => one.kind === kind && one.measure === measure);
    return series.length > 0 ? [{ measure, title, series }] : [];
  });
  return (
    <>
      {metrics.simulated && (
        <Notice>
          The GPUs are simulated. Their figures are computed from the jobs' progress and CPU use, not measured.
        </Notice>
      )}
      <div className={styles.charts}>
        {shown.map((each) => (
          <MeasureChart
            key={each.title}
            {...each}
            resolution={metrics.resolution_seconds}
            simulated={metrics.simulated && each.title.startsWith("GPU")}
            {...(marks ? { marks } : {})}
          />
        ))}
      </div>
      {metrics.left_out > 0 && (
        <p className={styles.note}>{metrics.left_out} more groups of curves would be too many to show at once.</p>
      )}
    </>
  );
}

interface MeasureChartProps {
  measure: string;
  title: string;
  series: readonly Series[];
  resolution: number;
  simulated: boolean;
  marks?: readonly number[];
}

function MeasureChart({ measure, title, series, resolution, simulated, marks }: MeasureChartProps) {
  const { x, curves, leftOut, unit } = useMemo(() => curvesOf(series, resolution), [series, resolution]);
  const lines = useMemo<ChartSeries[]>(
    () =>
      curves.map(({ label, mean, low, high }, place) => ({
        label: curves.length > 1 ? label : "Mean",
        token: `crop-${place + 1}`,
        values: mean,
        band: { low, high },
      })),
    [curves],
  );
  const heading = `${title}${unit.name ? `, ${unit.name}` : ""}${simulated ? " (simulated)" : ""}`;
  return (
    <figure className={styles.chart}>
      <figcaption className={styles.heading}>{heading}</figcaption>
      <Chart
        label={`${heading} over time`}
        x={x}
        series={lines}
        height={170}
        hasGaps
        ceiling={measure.endsWith("_percent") ? 100 : 0}
        {...(marks ? { marks } : {})}
      />
      {lines.length > 1 && <ChartKey series={lines} />}
      {leftOut > 0 && <p className={styles.note}>{leftOut} more are not shown.</p>}
    </figure>
  );
}
