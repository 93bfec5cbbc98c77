/**
 * The newest version of every object the page has seen, from REST answers and from the live stream.
 *
 * A pure reducer: messages may come twice, late or not at all, and answers to requests may be overtaken by
 * the stream. Whatever the order, the highest version of each object wins. Objects end, they are never
 * deleted, so absence from an answer means nothing.
 */

import type { Job, MapJob, MapNode, UsagePoint } from "@/api/schema";
import type { Kind, ObjectMessage, Objects, PredictionData, WhyData } from "@/live/messages";

/** A job of which more than the map needs is perhaps known. */
export type SeenJob = MapJob & Partial<Pick<Job, "reasons" | "serves" | "spec">>;

/** Where rows of the map are: of each object there is either one of them or the whole. */
export const MAP_TABLES = { job: "mapJob", node: "mapNode" } as const;

/** The name by which REST addresses know an object; unlike ids it is in every object. */
export const keyOf: { [K in Kind]: (object: Objects[K]) => string | number } = {
  job: (job) => job.id,
  node: (node) => node.name,
  virtual_cluster: (cluster) => cluster.name,
  round: (round) => round.number,
};

const versionOf: { [K in Kind]: (object: Objects[K]) => number } = {
  job: (job) => job.version,
  node: (node) => node.version,
  virtual_cluster: (cluster) => cluster.version,
  // A round is written once; its record does not change.
  round: (round) => round.number,
};

const MARKET_KINDS: readonly string[] = ["offer", "loan", "account"];

export type Table<K extends Kind> = ReadonlyMap<string | number, Objects[K]>;

interface Why {
  round: number;
  position: WhyData["position"];
  /** The state's clock when the position arrived. */
  heard: number;
  /** Null where the stream said only a position: the job's own hold. */
  reasons: WhyData["reasons"] | null;
  /** The state's clock when the reasons arrived. */
  explained: number;
}

export interface LiveState {
  readonly job: Table<"job">;
  readonly node: Table<"node">;
  /** What the map shows of jobs and nodes that are not whole above. */
  readonly mapJob: ReadonlyMap<string | number, SeenJob>;
  readonly mapNode: ReadonlyMap<string | number, MapNode>;
  readonly virtual_cluster: Table<"virtual_cluster">;
  readonly round: Table<"round">;
  /** Reasons and positions newer than the job they belong to: a round explains without changing the row. */
  readonly why: ReadonlyMap<number, Why>;
  /** What was foreseen of waiting jobs, by the round after which it was. */
  readonly prediction: ReadonlyMap<number, PredictionData & { round: number }>;
  readonly usage: readonly UsagePoint[];
  /** Counts what was heard of offers, loans and accounts. */
  readonly market: number;
  /** Counts every change; a request remembers it to tell what was heard before it was sent. */
  readonly clock: number;
}

/** What is kept of kinds that grow without end. */
export const KEPT = { rounds: 200, usagePoints: 720, endedJobs: 2000, predictions: 5000 };

export const emptyState: LiveState = {
  job: new Map(),
  node: new Map(),
  mapJob: new Map(),
  mapNode: new Map(),
  virtual_cluster: new Map(),
  round: new Map(),
  why: new Map(),
  prediction: new Map(),
  usage: [],
  market: 0,
  clock: 0,
};

export type Change =
  | { type: "objects"; objects: readonly ObjectMessage[] }
  | { type: "queues"; round: number; positions: Record<string, number> }
  | { type: "usage"; points: readonly UsagePoint[] }
  | { [K in Kind]: { type: "fetched"; kind: K; objects: readonly Objects[K][]; since: number } }[Kind]
  /** An answer that only some pages know how to merge. */
  | { type: "map"; merge: (state: LiveState) => LiveState }
  | { type: "forget" };

/** The state after `change`; the very same state when nothing in it was new. */
export function reduce(state: LiveState, change: Change): LiveState {
  const next = step(state, change);
  return next === state ? state : { ...next, clock: state.clock + 1 };
}

function step(state: LiveState, change: Change): LiveState {
  switch (change.type) {
    case "objects":
      return mergeStream(state, change.objects);
    case "fetched":
      return mergeFetched(state, change);
    case "queues":
      return mergePositions(state, change.round, change.positions);
    case "usage":
      return mergeUsage(state, change.points);
    case "map":
      return change.merge(state);
    case "forget":
      return { ...emptyState, clock: state.clock };
  }
}

function mergeStream(state: LiveState, objects: readonly ObjectMessage[]): LiveState {
  let next = state;
  for (const kind of ["job", "node", "virtual_cluster", "round"] as const) {
    const data = objects.flatMap((object) => (object.kind === kind ? [object.data] : []));
    next = mergeTable(next, kind, data, (known, offered) => offered > known);
  }
  next = mergePredictions(next, objects);
  if (objects.some(({ kind }) => MARKET_KINDS.includes(kind))) next = { ...next, market: next.market + 1 };
  const whys = objects.filter((object) => object.kind === "why");
  if (whys.length === 0) return next;
  const why = new Map(next.why);
  const clock = state.clock + 1;
  for (const { id, version, data } of whys) {
    if (version >= (why.get(id)?.round ?? 0)) why.set(id, { ...data, round: version, heard: clock, explained: clock });
  }
  return { ...next, why };
}

function mergePredictions(state: LiveState, objects: readonly ObjectMessage[]): LiveState {
  const told = objects.filter((object) => object.kind === "prediction");
  if (told.length === 0) return state;
  const prediction = new Map(state.prediction);
  for (const { id, version, data } of told) {
    if (version >= (prediction.get(id)?.round ?? 0)) prediction.set(id, { ...data, round: version });
  }
  dropOldest(prediction, KEPT.predictions, () => true);
  return { ...state, prediction };
}

function mergeFetched(state: LiveState, change: Extract<Change, { type: "fetched" }>): LiveState {
  // An equal version is taken too: figures such as an attempt's step are fresher in an answer.
  const next = mergeTable(state, change.kind, change.objects as Objects[Kind][], (known, offered) => offered >= known);
  if (change.kind !== "job") return next;
  let why: Map<number, Why> | null = null;
  for (const { id } of change.objects) {
    const known = state.why.get(id);
    if (!known || (known.reasons ? known.explained : known.heard) > change.since) continue;
    why ??= new Map(next.why);
    if (known.heard <= change.since) why.delete(id);
    // A position that came while the answer was under way says nothing about the reasons in it.
    else why.set(id, { ...known, reasons: null });
  }
  return why ? { ...next, why } : next;
}

function mergeTable<K extends Kind>(
  state: LiveState,
  kind: K,
  objects: readonly Objects[K][],
  isNewer: (known: number, offered: number) => boolean,
): LiveState {
  const known = state[kind] as Table<K>;
  const rows = MAP_TABLES[kind as "job"] as "mapJob" | undefined;
  let left = rows && state[rows];
  let table: Map<string | number, Objects[K]> | null = null;
  for (const object of objects) {
    const key = keyOf[kind](object);
    const current = (table ?? known).get(key) ?? (left?.get(key) as Objects[K] | undefined);
    if (current && !isNewer(versionOf[kind](current), versionOf[kind](object))) continue;
    table ??= new Map(known);
    table.set(key, object);
    if (rows && left?.has(key)) {
      if (left === state[rows]) left = new Map(left);
      (left as Map<string | number, SeenJob>).delete(key);
    }
  }
  if (!table) return state;
  if (kind === "round") dropOldest(table, KEPT.rounds, () => true);
  if (kind === "job") dropOldest(table, KEPT.endedJobs, (job) => (job as Job).ended_at !== null);
  return { ...state, [kind]: table, ...(rows && { [rows]: left }) };
}

/** Forget the lowest keys among what `matches`, down to `limit`, with slack so that this is rare. */
function dropOldest<T>(table: Map<string | number, T>, limit: number, matches: (object: T) => boolean): void {
  if (table.size <= limit * 1.25) return;
  const keys = [...table].filter(([, object]) => matches(object)).map(([key]) => Number(key));
  keys.sort((a, b) => a - b);
  for (const key of keys.slice(0, Math.max(0, keys.length - limit))) table.delete(key);
}

function mergePositions(state: LiveState, round: number, positions: Record<string, number>): LiveState {
  const why = new Map(state.why);
  for (const [id, position] of Object.entries(positions)) {
    const job = Number(id);
    const known = why.get(job);
    if (known && known.round > round) continue;
    if (!known && !state.job.has(job) && !state.mapJob.has(job)) continue;
    const { reasons, explained } = known ?? { reasons: null, explained: 0 };
    why.set(job, { reasons, explained, position, round, heard: state.clock + 1 });
  }
  return { ...state, why };
}

function mergeUsage(state: LiveState, points: readonly UsagePoint[]): LiveState {
  const byTime = new Map(state.usage.map((point) => [Date.parse(point.at), point]));
  for (const point of points) byTime.set(Date.parse(point.at), point);
  const usage = [...byTime].sort(([a], [b]) => a - b).map(([, point]) => point);
  return { ...state, usage: usage.slice(-KEPT.usagePoints) };
}

/** A job with the latest reasons and position that any round gave it. */
export function withWhy<J extends SeenJob>(whys: LiveState["why"], job: J): J {
  const why = whys.get(job.id);
  if (!why || job.state !== "queued") return job;
  return { ...job, reasons: why.reasons ?? job.reasons, position: why.position };
}

/** The newer of what was fetched and what the stream said since. */
export function newestPrediction(
  told: LiveState["prediction"],
  job: number,
  fetched: PredictionData | undefined,
): PredictionData | undefined {
  const heard = told.get(job);
  return heard && heard.round >= (fetched?.prediction?.round ?? 0) ? heard : fetched;
}
