import { useEffect, useMemo, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import { colour, useTheme } from "@/ui/theme";
import { Key } from "@/ui/key";
import styles from "@/components/chart.module.css";

export interface ChartSeries {
  label: string;
  /** Name of a colour token. */
  token: string;
  values: (number | null)[];
  /** Fill down to the series drawn before this one, for stacks. */
  stacked?: boolean;
  dashed?: boolean;
}

interface ChartProps {
  /** Read to those who do not see the curves. */
  label: string;
  /** Seconds since 1970, or steps when `isTime` is false. */
  x: number[];
  series: ChartSeries[];
  height?: number;
  isTime?: boolean;
  /** Vertical axis from zero to at least this. */
  ceiling?: number | undefined;
  xLabel?: string;
}

/** Curves over time or steps; follows the width it is given and the theme. */
export function Chart({ label, x, series, height = 220, isTime = true, ceiling, xLabel }: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const data = useMemo<uPlot.AlignedData>(() => [x, ...series.map((one) => one.values)], [x, series]);
  const latest = useRef(data);
  // What the chart is made of; when only figures change the same chart takes new data.
  const shape = JSON.stringify([
    series.map(({ label: name, token, stacked, dashed }) => [name, token, stacked, dashed]),
    height,
    isTime,
    ceiling,
    theme,
    xLabel,
  ]);

  useEffect(() => {
    latest.current = data;
    plot.current?.setData(data);
  }, [data]);

  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const chart = new uPlot(optionsFrom(shape, element.clientWidth), latest.current, element);
    plot.current = chart;
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
      plot.current = null;
    };
  }, [shape, height]);

  return <div ref={frame} role="img" aria-label={label} className={styles.chart} style={{ height }} />;
}

/** Which curve is which, for charts that are not read off at the pointer alone. */
export function ChartKey({ series }: { series: readonly Pick<ChartSeries, "label" | "token" | "dashed">[] }) {
  return (
    <Key className={styles.key} aria-label="Curves">
      {series.map(({ label, token, dashed }) => (
        <li key={label}>
          <span style={{ borderTop: `2px ${dashed ? "dashed" : "solid"} var(--${token})` }} /> {label}
        </li>
      ))}
    </Key>
  );
}

type Shape = [
  [string, string, boolean | null, boolean | null][],
  number,
  boolean,
  number | null,
  string,
  string | null,
];

function optionsFrom(shape: string, width: number): uPlot.Options {
  const [series, height, isTime, ceiling, , xLabel] = JSON.parse(shape) as Shape;
  const font = `12px ${colour("font-text")}`;
  const axis: uPlot.Axis = {
    stroke: colour("ink-muted"),
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
    font,
  };
  const isStacked = series.some(([, , stacked]) => stacked);
  return {
    width,
    height,
    scales: {
      x: { time: isTime },
      y: ceiling === null ? {} : { range: (_chart, _low, high) => [0, Math.max(ceiling, high)] },
    },
    axes: [
      {
        ...axis,
        size: 28,
        ...(isTime ? { values: clockAxis, space: 80 } : {}),
        ...(xLabel ? { label: xLabel, labelSize: 16, labelGap: 0, labelFont: font } : {}),
      },
      { ...axis, size: 44 },
    ],
    legend: { show: !isStacked, live: true },
    cursor: { y: false, points: { size: 6 } },
    series: [
      isTime
        ? { value: (_chart, at: number | null) => (at === null ? "–" : new Date(at * 1000).toLocaleTimeString()) }
        : { label: xLabel ?? "Step" },
      ...series.map(([name, token, stacked, dashed]) => ({
        label: name,
        stroke: colour(token),
        width: stacked ? 1 : 1.75,
        ...(stacked ? { fill: colour(token) } : {}),
        ...(dashed ? { dash: [5, 4] } : {}),
        points: { show: false },
        spanGaps: true,
      })),
    ],
  };
}

/** Hours and minutes; seconds only when the span is short. */
function clockAxis(_chart: uPlot, splits: number[], _axis: number, _space: number, increment: number): string[] {
  return splits.map((at) =>
    new Date(at * 1000).toLocaleTimeString(undefined, {
      hour: "2-digit",
      minute: "2-digit",
      hourCycle: "h23",
      ...(increment < 60 ? { second: "2-digit" } : {}),
    }),
  );
}
