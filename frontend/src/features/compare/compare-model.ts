/** What several runs are compared by: their curves on one axis, and the fields in which they differ. Pure. */

import type { JobSpec, ProgressPoint } from "@/api/schema";
import { curveOf, metricsOf } from "@/components/metrics/progress-curves";

export const LEAST_JOBS = 2;
/** As many as there are colours for their curves. */
export const MOST_JOBS = 8;

/** The numbers of jobs in an address, each once and no more than can be compared. */
export function jobsIn(address: string): number[] {
  const numbers = address.split(",").map(Number);
  return [...new Set(numbers)].filter((each) => Number.isSafeInteger(each) && each > 0).slice(0, MOST_JOBS);
}

export interface Run {
  /** When it first started; null where it has not. */
  startedAt: string | null;
  points: readonly ProgressPoint[];
}

export type Axis = "step" | "time";

export interface Overlay {
  x: number[];
  xLabel: string;
  /** For each run a value or nothing at each `x`. */
  curves: (number | undefined)[][];
}

/** Names of the metrics that at least one of the runs reports. */
export function metricsOfAll(runs: readonly Run[]): string[] {
  return metricsOf(runs.flatMap(({ points }) => points));
}

/** The curves of one metric by step, or by the time since each run's own first start. */
export function overlay(runs: readonly Run[], metric: string, axis: Axis): Overlay {
  const seconds = axis === "time" ? runs.map((run) => byTime(run, metric)) : [];
  const unit = UNITS.find(({ size }) => size <= latest(seconds) / LEAST_UNITS) ?? SECONDS;
  const curves =
    axis === "time" ? seconds.map((curve) => scaled(curve, unit.size)) : runs.map((run) => byStep(run, metric));
  const x = [...new Set(curves.flatMap((curve) => [...curve.keys()]))].sort((a, b) => a - b);
  return {
    x,
    xLabel: axis === "time" ? `${unit.name} since its start` : "Step",
    curves: curves.map((curve) => x.map((at) => curve.get(at))),
  };
}

type Curve = ReadonlyMap<number, number>;

const SECONDS = { name: "Seconds", size: 1 };
const UNITS = [{ name: "Hours", size: 3600 }, { name: "Minutes", size: 60 }, SECONDS];
/** An axis of fewer units than these has too few marks. */
const LEAST_UNITS = 5;

function byStep({ points }: Run, metric: string): Curve {
  const { steps, values } = curveOf(points, metric);
  return new Map(steps.flatMap((step, place) => entry(step, values[place])));
}

function byTime({ startedAt, points }: Run, metric: string): Curve {
  if (startedAt === null) return new Map();
  const start = Date.parse(startedAt);
  return new Map(points.flatMap(({ at, values }) => entry((Date.parse(at) - start) / 1000, values[metric])));
}

function entry(at: number, value: number | null | undefined): [number, number][] {
  return value == null ? [] : [[at, value]];
}

function latest(curves: readonly Curve[]): number {
  return Math.max(0, ...curves.flatMap((curve) => [...curve.keys()]));
}

/** To a hundredth of the unit: finer than a pixel, and short to read. */
function scaled(curve: Curve, unit: number): Curve {
  return new Map([...curve].map(([at, value]) => [Math.round((100 * at) / unit) / 100, value]));
}

/** Metrics of which less is better, by a part of their names. More is better for all others. */
const LESS_IS_BETTER = /loss|err|perplexity|ppl|mse|mae|wer|fid|time|seconds|latency/i;

export function isLessBetter(metric: string): boolean {
  return LESS_IS_BETTER.test(metric);
}

/** The value of the run's last step that has one, and the best of all; null where it reported none. */
export function lastAndBest(run: Run, metric: string): { last: number; best: number } | null {
  const values = [...byStep(run, metric).values()];
  const last = values.at(-1);
  if (last === undefined) return null;
  return { last, best: values.reduce((a, b) => (isLessBetter(metric) ? Math.min(a, b) : Math.max(a, b))) };
}

export interface Difference {
  /** The path of the field: `tasks.main.replicas`. */
  field: string;
  /** As text, job by job; empty where a specification leaves it out. */
  values: string[];
}

/** The fields of specifications that are not the same in all of them. */
export function differences(specs: readonly JobSpec[]): Difference[] {
  const flat = specs.map((spec) => new Map(fieldsOf(spec, "")));
  const fields = [...new Set(flat.flatMap((each) => [...each.keys()]))];
  return fields
    .map((field) => ({ field, values: flat.map((each) => each.get(field) ?? "") }))
    .filter(({ values }) => new Set(values).size > 1);
}

/** Lists of things that have names, as tasks do, are gone into by name; other lists are one value. */
function fieldsOf(value: unknown, path: string): [string, string][] {
  if (value === null || value === undefined) return [];
  if (typeof value === "string") return [[path, value]];
  const named = Array.isArray(value) && value.length > 0 && value.every(hasName);
  if (typeof value !== "object" || (Array.isArray(value) && !named)) return [[path, JSON.stringify(value)]];
  const entries = named ? value.map((each) => [each.name, each] as const) : Object.entries(value);
  return entries.flatMap(([key, inner]) => fieldsOf(inner, path ? `${path}.${key}` : key));
}

function hasName(value: unknown): value is { name: string } {
  return typeof value === "object" && value !== null && "name" in value && typeof value.name === "string";
}
