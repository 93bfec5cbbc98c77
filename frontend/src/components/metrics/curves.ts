/** Figures over time as curves with a band from the lowest to the highest. Pure. */

import type { Series } from "@/api/schema";

/** Points further apart than so many times the usual have a gap between them. */
const GAP = 2.5;
/** More curves than this are not told apart. */
export const CURVES_MOST = 8;

/** null is a gap; undefined: another curve has a point just then, and this one goes on. */
type Values = (number | null | undefined)[];

export interface Curve {
  label: string;
  mean: Values;
  low: Values;
  high: Values;
}

export interface Curves {
  /** Unix seconds. */
  x: number[];
  curves: Curve[];
  leftOut: number;
  unit: Unit;
}

export interface Unit {
  /** What follows the numbers. */
  name: string;
  /** What they are divided by. */
  size: number;
}

const UNITS: readonly (readonly [string, Unit])[] = [
  ["_bytes_per_second", { name: "MiB/s", size: 2 ** 20 }],
  ["_bytes", { name: "GiB", size: 2 ** 30 }],
  ["_percent", { name: "%", size: 1 }],
  ["_watts", { name: "W", size: 1 }],
  ["_celsius", { name: "°C", size: 1 }],
  ["_mhz", { name: "MHz", size: 1 }],
];

/** Instead, where even the highest is less than one. */
const SMALLER: readonly (readonly [string, Unit])[] = [
  ["_bytes_per_second", { name: "KiB/s", size: 2 ** 10 }],
  ["_bytes", { name: "MiB", size: 2 ** 20 }],
];

/** The unit with which a measure's name ends; of amounts that stay small a smaller one. */
export function unitOf(measure: string, highest = Infinity): Unit {
  const among = (units: typeof UNITS) => units.find(([ending]) => measure.endsWith(ending))?.[1];
  const unit = among(UNITS) ?? { name: "", size: 1 };
  return highest < unit.size ? (among(SMALLER) ?? unit) : unit;
}

/** Curves of one measure. Attempts of a job follow one another on the same curve. */
export function curvesOf(series: readonly Series[], resolutionSeconds: number): Curves {
  const byLabel = new Map<string, Map<number, number[]>>();
  for (const one of series) {
    const label = labelOf(one);
    const points = byLabel.get(label) ?? new Map<number, number[]>();
    for (const point of one.points) points.set(point[0] ?? 0, point);
    byLabel.set(label, points);
  }
  const highest = Math.max(...series.flatMap((one) => one.points.map((point) => point[3] ?? 0)));
  const unit = unitOf(series[0]?.measure ?? "", highest);
  const shown = [...byLabel].slice(0, CURVES_MOST);
  const x = timesOf(
    shown.flatMap(([, points]) => [...points.keys()]),
    resolutionSeconds,
  );
  const scaled = (points: Map<number, number[]>, place: number): Values => {
    const gaps = gapsOf([...points.keys()], resolutionSeconds);
    return x.map((at) => {
      const value = points.get(at)?.[place];
      if (value !== undefined) return value / unit.size;
      return gaps.some(([from, to]) => from < at && at < to) ? null : undefined;
    });
  };
  return {
    x,
    curves: shown.map(([label, points]) => ({
      label,
      mean: scaled(points, 1),
      low: scaled(points, 2),
      high: scaled(points, 3),
    })),
    leftOut: byLabel.size - shown.length,
    unit,
  };
}

/** All times in order, and one in each gap, at which no curve has a value. */
function timesOf(times: readonly number[], resolutionSeconds: number): number[] {
  const own = [...new Set(times)];
  const inGaps = gapsOf([...own], resolutionSeconds).map(([from]) => from + resolutionSeconds);
  return [...own, ...inGaps.filter((at) => at > -Infinity && at < Math.max(...own))].sort((a, b) => a - b);
}

function gapsOf(times: readonly number[], resolutionSeconds: number): [number, number][] {
  const ends = [-Infinity, ...[...times].sort((a, b) => a - b), Infinity];
  return ends.slice(1).flatMap((to, place): [number, number][] => {
    const from = ends[place] ?? -Infinity;
    return to - from > GAP * resolutionSeconds ? [[from, to]] : [];
  });
}

function labelOf({ kind, node, gpu, rank }: Series): string {
  if (gpu !== null) return node ? `${node} GPU ${gpu}` : `GPU ${gpu}`;
  if (rank !== null) return `Rank ${rank}`;
  if (kind === "host") return "Machine";
  return kind === "gpu" ? "All GPUs" : "All replicas";
}
