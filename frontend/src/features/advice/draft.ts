/** What the form of the adviser holds, the question it becomes, and what the answer says in curves. Pure. */

import type { Advice, AdviceQuestionRequest } from "@/api/schema";

export interface Minimum {
  cluster: string;
  type: string;
  count: number | undefined;
}

export interface Question {
  days: number | undefined;
  /** GPUs that may be given away in all, by model. */
  budget: Record<string, number | undefined>;
  /** Price of a GPU for an hour, by model. */
  price: Record<string, number | undefined>;
  minimum: Minimum[];
  /** Virtual clusters that stay as they are. */
  keep: string[];
}

export const DEFAULT_DAYS = 7;

export const emptyQuestion: Question = { days: DEFAULT_DAYS, budget: {}, price: {}, minimum: [], keep: [] };

/** The body to send; what was left empty is not asked for. */
export function bodyOf(question: Question): AdviceQuestionRequest {
  const budget = given(question.budget);
  const price = given(question.price);
  const minimum: Record<string, Record<string, number>> = {};
  for (const { cluster, type, count } of question.minimum)
    if (cluster && type && count) minimum[cluster] = { ...minimum[cluster], [type]: count };
  return {
    days: question.days ?? DEFAULT_DAYS,
    ...(isEmpty(budget) ? {} : { budget_gpus: budget }),
    ...(isEmpty(price) ? {} : { price_per_gpu_hour: price }),
    ...(isEmpty(minimum) ? {} : { minimum }),
    ...(question.keep.length > 0 ? { keep: question.keep } : {}),
  };
}

function given(values: Readonly<Record<string, number | undefined>>): Record<string, number> {
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => (value === undefined ? [] : [[name, value]])),
  );
}

function isEmpty(value: object): boolean {
  return Object.keys(value).length === 0;
}

export type CurvePoint = Advice["curves"][string][number];

/** By GPUs, and for the same number of GPUs the cells with the shortest delay. */
export function curveOf(points: readonly CurvePoint[]): CurvePoint[] {
  const best = new Map<number, CurvePoint>();
  for (const point of points) {
    const known = best.get(point.gpus);
    if (!known || point.delay_mean_seconds < known.delay_mean_seconds) best.set(point.gpus, point);
  }
  return [...best.values()].sort((a, b) => a.gpus - b.gpus);
}

/** Whether `advised` is better than `today`; null when they are alike or one is unknown. */
export function isBetter(today: number | null, advised: number | null, less: boolean): boolean | null {
  if (today === null || advised === null || today === advised) return null;
  return advised < today === less;
}
