import { type RefObject, useEffect, useMemo, useRef, useState } from "react";
import { createPortal } from "react-dom";
import type uPlot from "uplot";

import styles from "@/components/chart.module.css";
import type { Pointed } from "@/components/chart-drawing";
import { moment } from "@/components/format";
import { Notice } from "@/ui/feedback";
import { Key } from "@/ui/key";
import { useTheme } from "@/ui/theme";

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

/**
 * Curves over time or steps; follows the width it is given and the theme. What draws them is fetched when the first
 * chart comes into view.
 */
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
  const drawing = useDrawing(frame);
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const data = useMemo<uPlot.AlignedData>(
    () => [x, ...series.map((one) => one.values), ...series.flatMap(({ band }) => (band ? [band.high, band.low] : []))],
    [x, series],
  );
  const latest = useRef(data);
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
    if (!element || !drawing || drawing === "missing") return;
    const chart = drawing.draw(element, shape, latest.current, setPointed);
    plot.current = chart;
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
      plot.current = null;
      setPointed(null);
    };
  }, [drawing, shape, height]);

  if (drawing === "missing") return <Notice>The curves cannot be loaded: reload the page.</Notice>;
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

type Drawing = typeof import("@/components/chart-drawing");

/** Return what draws charts once the frame has come into view; null until then. */
function useDrawing(frame: RefObject<HTMLElement | null>): Drawing | "missing" | null {
  const [drawing, setDrawing] = useState<Drawing | "missing" | null>(null);
  useEffect(() => {
    const element = frame.current;
    if (!element) return;
    const observer = new IntersectionObserver((entries) => {
      if (!entries.some(({ isIntersecting }) => isIntersecting)) return;
      observer.disconnect();
      import("@/components/chart-drawing").then(setDrawing, () => setDrawing("missing"));
    });
    observer.observe(element);
    return () => observer.disconnect();
  }, [frame]);
  return drawing;
}

const NO_MARKS: readonly number[] = [];

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
