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
  /** null is a gap; undefined: nothing was told just then, and the curve goes on. */
  values: (number | null | undefined)[];
  /** The lowest and the highest of what each value is the mean of. */
  band?: { low: (number | null | undefined)[]; high: (number | null | undefined)[] };
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
  /** Leave gaps open. */
  hasGaps?: boolean;
  /** Vertical lines, in the units of x. */
  marks?: readonly number[];
}

/** Curves over time or steps; follows the width it is given and the theme. */
export function Chart({
  label,
  x,
  series,
  height = 220,
  isTime = true,
  ceiling,
  xLabel,
  hasGaps = false,
  marks = NO_MARKS,
}: ChartProps) {
  const frame = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const theme = useTheme();
  const data = useMemo<uPlot.AlignedData>(
    () => [x, ...series.map((one) => one.values), ...series.flatMap(({ band }) => (band ? [band.high, band.low] : []))],
    [x, series],
  );
  const latest = useRef(data);
  // What the chart is made of; when only figures change the same chart takes new data.
  const shape = JSON.stringify([
    series.map(({ label: name, token, stacked, dashed, band }) => [name, token, stacked, dashed, band !== undefined]),
    height,
    isTime,
    ceiling,
    theme,
    xLabel,
    hasGaps,
    marks,
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
  [string, string, boolean | null, boolean | null, boolean][],
  number,
  boolean,
  number | null,
  string,
  string | null,
  boolean,
  number[],
];

function optionsFrom(shape: string, width: number): uPlot.Options {
  const [series, height, isTime, ceiling, , xLabel, hasGaps, marks] = JSON.parse(shape) as Shape;
  const font = `12px ${colour("font-text")}`;
  const axis: uPlot.Axis = {
    stroke: colour("ink-muted"),
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
    font,
  };
  const isStacked = series.some(([, , stacked]) => stacked);
  const banded = series.filter(([, , , , hasBand]) => hasBand);
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
        spanGaps: !hasGaps,
      })),
      ...banded.flatMap(() => [bandEdge("Highest", banded.length), bandEdge("Lowest", banded.length)]),
    ],
    bands: banded.map(([, token], place) => {
      const high = 1 + series.length + 2 * place;
      return { series: [high, high + 1], fill: `${colour(token)}${BAND_ALPHA}` };
    }),
    hooks: { drawAxes: [(chart) => drawMarks(chart, marks)] },
  };
}

const NO_MARKS: readonly number[] = [];
/** Of a band, in hexadecimal. */
const BAND_ALPHA = "33";

/** An edge of a band has no line of its own; its figures are read off where there is one band only. */
function bandEdge(label: string, bands: number): uPlot.Series {
  return { label, width: 0, points: { show: false }, ...(bands > 1 ? { class: "of-many" } : {}) };
}

function drawMarks(chart: uPlot, marks: readonly number[]): void {
  const { ctx, bbox, scales } = chart;
  ctx.save();
  ctx.strokeStyle = colour("ink-faint");
  ctx.setLineDash([3, 4]);
  for (const mark of marks) {
    if (mark < (scales.x?.min ?? mark) || mark > (scales.x?.max ?? mark)) continue;
    const at = chart.valToPos(mark, "x", true);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
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
