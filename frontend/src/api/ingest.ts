/** Puts fetched objects into the live store, marked with what the store had heard when they were asked for. */

import type { Kind, Objects } from "@/live/messages";
import { live } from "@/live/live";
import type { Change } from "@/live/store";

export async function ingest<K extends Kind, A extends { results: Objects[K][] }>(
  kind: K,
  ask: () => Promise<A>,
): Promise<A> {
  const since = live.current().clock;
  const answer = await ask();
  live.apply({ type: "fetched", kind, objects: answer.results, since } as Change);
  return answer;
}

/** The same of one object. */
export async function ingestOne<K extends Kind>(kind: K, ask: () => Promise<Objects[K]>): Promise<Objects[K]> {
  let object!: Objects[K];
  await ingest(kind, async () => ({ results: [(object = await ask())] }));
  return object;
}
