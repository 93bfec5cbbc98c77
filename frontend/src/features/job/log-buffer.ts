/**
 * What a job writes, put together: one rank's output from REST pages and streamed chunks, or that of several ranks line
 * by line, each with the name of its rank. Pure.
 *
 * Chunks are numbered without gaps. A streamed chunk that skips numbers is kept aside until what is
 * missing was fetched; REST's answer is final, also where it skips (a limit cut the output).
 */

import type { LogChunk, LogPage, MergedLogPage } from "@/api/schema";

/** Lines kept; a job that writes more loses the oldest from view. */
export const KEPT_LINES = 20_000;

export interface LogBuffer {
  /** Number of the last chunk in `lines`; -1 when there is none. */
  through: number;
  lines: readonly string[];
  /** Whether the last line has not ended. */
  isOpen: boolean;
  /** So many lines above it the next text goes: the output moved the cursor up. */
  up: number;
  /** The end of what came, which means something only with what follows: a carriage return, half an escape. */
  held: string;
  /** Lines that fell out at the front. */
  dropped: number;
  /** Streamed chunks that wait for the ones before them. */
  ahead: ReadonlyMap<number, LogChunk>;
  /** No more will come. */
  complete: boolean;
  /** The job wrote more than is stored. */
  truncated: boolean;
  /** Why there is nothing any more; empty where nothing was removed. */
  removed: string;
}

export const emptyLog: LogBuffer = {
  through: -1,
  lines: [],
  isOpen: false,
  up: 0,
  held: "",
  dropped: 0,
  ahead: new Map(),
  complete: false,
  truncated: false,
  removed: "",
};

/** A log that begins with the chunk of this number; the text of that chunk begins in line `line`. */
export function logFrom(sequence: number, line: number): LogBuffer {
  return { ...emptyLog, through: sequence - 1, dropped: line - 1 };
}

/** Whether chunks are missing before those already streamed. */
export function hasGap(log: LogBuffer): boolean {
  return log.ahead.size > 0;
}

export function addPage(log: LogBuffer, page: LogPage): LogBuffer {
  const fresh = page.chunks.filter((chunk) => chunk.sequence > log.through);
  const through = Math.max(log.through, page.next_after, fresh.at(-1)?.sequence ?? -1);
  const fetched = appendText(log, fresh.map((chunk) => chunk.text).join(""));
  const { complete, truncated } = page;
  return takeFromAhead({ ...fetched, through, complete, truncated, removed: page.removed?.message ?? "" });
}

export function addStreamed(log: LogBuffer, chunks: readonly LogChunk[]): LogBuffer {
  const ahead = new Map(log.ahead);
  for (const chunk of chunks) if (chunk.sequence > log.through) ahead.set(chunk.sequence, chunk);
  return takeFromAhead({ ...log, ahead });
}

function takeFromAhead(log: LogBuffer): LogBuffer {
  const ahead = new Map(log.ahead);
  let { through } = log;
  let text = "";
  for (const sequence of ahead.keys()) if (sequence <= through) ahead.delete(sequence);
  for (let chunk = ahead.get(through + 1); chunk; chunk = ahead.get(through + 1)) {
    text += chunk.text;
    through = chunk.sequence;
    ahead.delete(through);
  }
  return { ...appendText(log, text), through, ahead };
}

export function appendText(before: LogBuffer, added: string): LogBuffer {
  if (!added) return before;
  const whole = before.held + added;
  const held = HELD.exec(whole)?.[0] ?? "";
  const log = { ...before, held };
  const text = whole.slice(0, whole.length - held.length);
  if (!text) return log;
  if (log.up > 0 || UP.test(text)) return redraw(log, text);
  const [first = "", ...rest] = text.split("\n");
  const isOpen = rest.length === 0 || rest.at(-1) !== "";
  if (rest.at(-1) === "") rest.pop();
  const known = log.isOpen ? log.lines.slice(0, -1) : log.lines;
  const start = log.isOpen ? `${log.lines.at(-1) ?? ""}${first}` : first;
  const lines = [...known, ...[start, ...rest].map(visible)];
  const excess = Math.max(0, lines.length - KEPT_LINES);
  return { ...log, lines: excess > 0 ? lines.slice(excess) : lines, dropped: log.dropped + excess, isOpen };
}

const HELD = /(\r+|\u001b(\[[0-9;?]{0,16})?)$/;
const UP = /\u001b\[\d{0,4}A/;
const MOVES = /(\n|\u001b\[\d{0,4}A)/;

/** Of progress bars below each other, which move the cursor up, each stays one line. */
function redraw(log: LogBuffer, text: string): LogBuffer {
  const rows = [...log.lines];
  let row = rows.length - (log.isOpen ? 1 : 0) - log.up;
  let isAgain = false;
  for (const part of text.split(MOVES)) {
    const isUp = UP.test(part);
    if (part === "\n" || isUp) {
      if (row === rows.length) rows.push("");
      row = isUp ? Math.max(0, row - Number(part.slice(2, -1) || 1)) : row + 1;
      isAgain = true;
    } else if (part) {
      const written = visible(isAgain ? part : (rows[row] ?? "") + part);
      rows[row] = written || (rows[row] ?? "");
      isAgain = false;
    }
  }
  const isOpen = row < rows.length;
  const excess = Math.max(0, rows.length - KEPT_LINES);
  const up = isOpen ? rows.length - 1 - row : 0;
  return { ...log, lines: rows.slice(excess), dropped: log.dropped + excess, isOpen, up };
}

const ESCAPES = /\u001b\[[0-9;?]*[A-Za-z]/g;

/** What a terminal would leave to see: no colours, and only what follows the last carriage return. */
function visible(line: string): string {
  const plain = line.replace(ESCAPES, "").replace(/\r+$/, "");
  return plain.slice(plain.lastIndexOf("\r") + 1);
}

/** Numbers of the lines that contain `text`, ignoring case. */
export function findLines(lines: readonly string[], text: string): number[] {
  const wanted = text.toLowerCase();
  if (!wanted) return [];
  return lines.flatMap((line, number) => (line.toLowerCase().includes(wanted) ? [number] : []));
}

interface MergedLog {
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
