/** The output of several ranks line by line, each with the name of its rank. Pure. */

import type { MergedLogPage } from "@/api/schema";
import { appendText, emptyLog, type LogBuffer } from "@/features/job/log-buffer";

export interface MergedLog {
  log: LogBuffer;
  /** Where to go on; only the server understands it. */
  after: string;
  /** Of each rank the line that has not ended: others' lines may come before its rest. */
  unended: ReadonlyMap<string, string>;
}

export const emptyMerged: MergedLog = { log: emptyLog, after: "", unended: new Map() };

export function addMerged(merged: MergedLog, page: MergedLogPage): MergedLog {
  const unended = new Map(merged.unended);
  let text = "";
  for (const chunk of page.chunks) {
    const name = page.ranks.length > 1 ? `[${chunk.task} ${chunk.rank}] ` : "";
    const lines = `${unended.get(name) ?? ""}${chunk.text}`.split("\n");
    unended.set(name, lines.pop() ?? "");
    text += lines.map((line) => `${name}${line}\n`).join("");
  }
  if (page.complete) {
    for (const [name, line] of unended) if (line) text += `${name}${line}\n`;
    unended.clear();
  }
  const log = { ...appendText(merged.log, text), complete: page.complete, removed: page.removed?.message ?? "" };
  return { log, after: page.next_after, unended };
}
