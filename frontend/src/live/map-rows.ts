/** What the map needs of every node and active job, beside the whole objects that the store has of some. */

import type { Job, MapJob, MapNode } from "@/api/schema";
import { type LiveState, MAP_TABLES, type SeenJob, type Table } from "@/live/store";

interface Rows {
  job: MapJob;
  node: MapNode;
}

const keyOf: { [K in keyof Rows]: (row: Rows[K]) => string | number } = {
  job: (row) => row.id,
  node: (row) => row.name,
};

/**
 * The state with the rows of a complete answer. `before` is the table of whole objects when it was asked for.
 *
 * What was known then and is not in the answer has ended, or was removed, while no stream said so.
 */
export function withRows<K extends keyof Rows>(
  state: LiveState,
  kind: K,
  answer: readonly Rows[K][],
  before: Table<K>,
): LiveState {
  const rows = new Map(answer.map((row) => [keyOf[kind](row), row]));
  const whole = new Map(state[kind] as Table<K>);
  for (const [key, object] of whole) {
    const row = rows.get(key);
    if (row && row.version <= object.version) rows.delete(key);
    else if (row || (before.get(key) === object && !(object as Job).ended_at)) whole.delete(key);
  }
  return { ...state, [kind]: whole, [MAP_TABLES[kind]]: rows };
}

/** Every node as the map shows it. */
export function nodesOf(state: Pick<LiveState, "node" | "mapNode">): MapNode[] {
  return [...state.mapNode.values(), ...state.node.values()];
}

/** Every job as the map shows it, those that ended lately among them. */
export function jobsOf(state: Pick<LiveState, "job" | "mapJob">): SeenJob[] {
  return [...state.mapJob.values(), ...state.job.values()];
}
