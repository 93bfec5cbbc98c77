import { useEffect, useMemo, useRef, useState } from "react";
import { createPortal } from "react-dom";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

import styles from "@/components/chart.module.css";
import { clockTime, dayOf, minuteTime, moment } from "@/components/format";
import { Key } from "@/ui/key";
import { colour, useTheme } from "@/ui/theme";

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
  const [pointed, setPointed] = useState<Pointed | null>(null);
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
    const chart = new uPlot(optionsFrom(shape, element.clientWidth, setPointed), latest.current, element);
    plot.current = chart;
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
      plot.current = null;
      setPointed(null);
    };
  }, [shape, height]);

  return (
    <>
      <div ref={frame} role="img" aria-label={label} className={styles.chart} style={{ height }} />
      {pointed && (
        <Readout
          pointed={pointed}
          x={x}
          series={series}
          head={isTime ? instant : (at) => `${xLabel ?? "Step"} ${at}`}
        />
      )}
    </>
  );
}

/** A place on a chart to which the pointer is near. */
interface Pointed {
  /** Of the values. */
  index: number;
  /** Of the pointer in the window, in pixels. */
  x: number;
  y: number;
}

interface ReadoutProps {
  pointed: Pointed;
  x: readonly number[];
  series: readonly ChartSeries[];
  head: (at: number) => string;
}

/** What the curves say where the pointer is. It belongs to the window: a chart or a panel would cut it off. */
function Readout({ pointed, x, series, head }: ReadoutProps) {
  const at = x[pointed.index];
  const readings = readingsAt(series, pointed.index);
  if (at === undefined || readings.length === 0) return null;
  const place = placeBeside(pointed, { width: window.innerWidth, height: window.innerHeight });
  return createPortal(
    <div className={styles.readout} style={place} aria-hidden>
      <strong>{head(at)}</strong>
      {readings.map(({ label, token, dashed, text }) => (
        <div key={label}>
          <Sample token={token} dashed={dashed} /> {label}
          <b>{text}</b>
        </div>
      ))}
    </div>,
    document.body,
  );
}

/** Which curve is which, for charts that are not read off at the pointer alone. */
export function ChartKey({ series }: { series: readonly Pick<ChartSeries, "label" | "token" | "dashed">[] }) {
  return (
    <Key className={styles.key} aria-label="Curves">
      {series.map(({ label, token, dashed }) => (
        <li key={label}>
          <Sample token={token} dashed={dashed} /> {label}
        </li>
      ))}
    </Key>
  );
}

function instant(seconds: number): string {
  return moment(new Date(seconds * 1000).toISOString());
}

function Sample({ token, dashed = false }: { token: string; dashed?: boolean | undefined }) {
  return <span style={{ borderTop: `2px ${dashed ? "dashed" : "solid"} var(--${token})` }} />;
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

function optionsFrom(shape: string, width: number, onPoint: (pointed: Pointed | null) => void): uPlot.Options {
  const [series, height, isTime, ceiling, , xLabel, hasGaps, marks] = JSON.parse(shape) as Shape;
  const font = `12px ${colour("font-text")}`;
  const axis: uPlot.Axis = {
    stroke: colour("ink-muted"),
    grid: { stroke: colour("line"), width: 1 },
    ticks: { show: false },
    font,
  };
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
        ...(isTime ? { values: clockAxis, incrs: CLOCK_STEPS_SECONDS, space: 80 } : { incrs: WHOLE_STEPS }),
        ...(xLabel ? { label: xLabel, labelSize: 16, labelGap: 0, labelFont: font } : {}),
      },
      {
        ...axis,
        size: (_chart, values: string[] | null) => axisWidth(values ?? []),
        values: (_chart, splits) => splits.map((value) => axisFormat.format(value)),
      },
    ],
    legend: { show: false },
    cursor: { y: false, points: { size: 6 } },
    series: [
      {},
      ...series.map(([name, token, stacked, dashed]) => ({
        label: name,
        stroke: colour(token),
        width: stacked ? 1 : 1.75,
        ...(stacked ? { fill: colour(token) } : {}),
        ...(dashed ? { dash: [5, 4] } : {}),
        points: { show: false },
        spanGaps: !hasGaps,
      })),
      ...banded.flatMap(() => [BAND_EDGE, BAND_EDGE]),
    ],
    bands: banded.map(([, token], place) => {
      const high = 1 + series.length + 2 * place;
      return { series: [high, high + 1], fill: `${colour(token)}${BAND_ALPHA}` };
    }),
    hooks: {
      drawAxes: [(chart) => drawMarks(chart, marks)],
      setCursor: [(chart) => onPoint(pointedOn(chart))],
    },
  };
}

const NO_MARKS: readonly number[] = [];
/** Steps and GPUs are counted: there is no half of one to name on an axis. */
const WHOLE_STEPS = Array.from({ length: 13 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
/** Of a band, in hexadecimal. */
const BAND_ALPHA = "33";

/** An edge of a band has no line of its own. */
const BAND_EDGE: uPlot.Series = { width: 0, points: { show: false } };

function pointedOn(chart: uPlot): Pointed | null {
  const { idx, left = -1, top = -1 } = chart.cursor;
  if (idx == null || left < 0) return null;
  const { left: x, top: y } = chart.over.getBoundingClientRect();
  return { index: idx, x: x + left, y: y + top };
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

const LEAST_AXIS_PIXELS = 44;
/** At the axis' 12 pixels a digit is 7 wide; the gap to the curves and a margin come beside. */
const DIGIT_PIXELS = 7;
const BESIDE_PIXELS = 16;

/** How wide the vertical axis is so that its longest label is whole. */
export function axisWidth(labels: readonly string[]): number {
  const longest = labels.reduce((most, label) => Math.max(most, label.length), 0);
  return Math.max(LEAST_AXIS_PIXELS, longest * DIGIT_PIXELS + BESIDE_PIXELS);
}

/** The usual three decimals would name two neighbours alike where values are small. */
const axisFormat = new Intl.NumberFormat("en-US", { maximumFractionDigits: 6 });

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Between two times that an axis names: what is closer together than a second would read alike. */
const CLOCK_STEPS_SECONDS = [
  ...[1, 2, 5, 10, 15, 30],
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * MINUTE),
  ...[1, 2, 3, 4, 6, 8, 12].map((hours) => hours * HOUR),
  ...[1, 2, 4, 7, 14, 28].map((days) => days * DAY),
];

/** Hours and minutes, seconds only when the span is short, and the day where one begins. */
function clockAxis(_chart: uPlot, splits: number[], _axis: number, _space: number, increment: number): string[] {
  const clock = increment < MINUTE ? clockTime : minuteTime;
  return splits.map((seconds) => {
    const at = new Date(seconds * 1000);
    const isMidnight = at.getHours() === 0 && at.getMinutes() === 0;
    return (increment >= HOUR && isMidnight ? dayOf : clock)(at.toISOString());
  });
}

interface Reading {
  label: string;
  token: string;
  dashed: boolean;
  /** With the lowest and the highest of what it is the mean of. */
  text: string;
}

/** One line for each curve that has a value there; of a stack's layer the height of the layer alone. */
export function readingsAt(series: readonly ChartSeries[], index: number): Reading[] {
  return series.flatMap(({ label, token, values, band, stacked, dashed = false }, place) => {
    const value = values[index];
    if (value == null) return [];
    const below = stacked && series[place + 1]?.stacked ? (series[place + 1]?.values[index] ?? 0) : 0;
    const low = band?.low[index];
    const high = band?.high[index];
    const range = low == null || high == null || low === high ? "" : ` (${figure(low)} – ${figure(high)})`;
    return [{ label, token, dashed, text: figure(value - below) + range }];
  });
}

const format = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });

function figure(value: number): string {
  return format.format(value);
}

/**
 * Where a box beside the pointer lies, as CSS: in the quarter of the window that has most room, so that no edge cuts
 * it off. Pixels of the window.
 */
export function placeBeside(
  { x, y }: { x: number; y: number },
  { width, height }: { width: number; height: number },
  distance = 14,
): Partial<Record<"left" | "right" | "top" | "bottom", number>> {
  return {
    ...(x < width / 2 ? { left: x + distance } : { right: width - x + distance }),
    ...(y < height / 2 ? { top: y + distance } : { bottom: height - y + distance }),
  };
}
