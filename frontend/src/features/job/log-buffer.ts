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
  /** When the node sent the beginning of each line. */
  times: readonly string[];
  /** Whether the last line has not ended. */
  isOpen: boolean;
  /** So many lines above it the next text goes: the output moved the cursor up. */
  up: number;
  /** The line at which it goes on was drawn before: what comes takes its place. */
  isAgain: boolean;
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
  times: [],
  isOpen: false,
  up: 0,
  isAgain: false,
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
  const fetched = append(log, fresh);
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
  const next: LogChunk[] = [];
  for (const sequence of ahead.keys()) if (sequence <= through) ahead.delete(sequence);
  for (let chunk = ahead.get(through + 1); chunk; chunk = ahead.get(through + 1)) {
    next.push(chunk);
    through = chunk.sequence;
    ahead.delete(through);
  }
  return { ...append(log, next), through, ahead };
}

type Written = Pick<LogChunk, "at" | "text">;

/** What is appended to: its lines and their times are its own, and grow in place. */
type Draft = Pick<LogBuffer, "isOpen" | "up" | "isAgain" | "held"> & { lines: string[]; times: string[] };

/** Append what was written, in its order. */
export function append(before: LogBuffer, written: readonly Written[]): LogBuffer {
  if (written.every(({ text }) => !text)) return before;
  const draft: Draft = { ...before, lines: [...before.lines], times: [...before.times] };
  for (const { text, at } of written) write(draft, text, at);
  const { lines, times, isOpen, isAgain, held } = draft;
  const excess = Math.max(0, lines.length - KEPT_LINES);
  const kept = { lines: lines.slice(excess), times: times.slice(excess), dropped: before.dropped + excess };
  // The cursor may stand at a line that fell out: it goes on at the oldest that is left.
  const up = Math.min(draft.up, Math.max(0, kept.lines.length - 1));
  return { ...before, ...kept, isOpen, up, isAgain, held };
}

function write(draft: Draft, added: string, at: string): void {
  const whole = draft.held + added;
  const held = HELD.exec(whole)?.[0] ?? "";
  const text = whole.slice(0, whole.length - held.length);
  // One carriage return says as much as many, and is not searched again with each chunk.
  draft.held = held.startsWith("\r") ? "\r" : held;
  if (!text) return;
  if (draft.up > 0 || (draft.isOpen && draft.isAgain) || UP.test(text)) {
    redraw(draft, text, at);
    return;
  }
  draft.isAgain = false;
  const [first = "", ...rest] = text.split("\n");
  const isOpen = rest.length === 0 || rest.at(-1) !== "";
  if (rest.at(-1) === "") rest.pop();
  const last = draft.lines.length - 1;
  if (draft.isOpen) draft.lines[last] = visible(`${draft.lines[last] ?? ""}${first}`);
  for (const line of draft.isOpen ? rest : [first, ...rest]) {
    draft.lines.push(visible(line));
    draft.times.push(at);
  }
  draft.isOpen = isOpen;
}

// Tried at the first of the carriage returns only: at each of them, it would look through all that follow.
const HELD = /((?<!\r)\r+|\u001b(\[[0-9;?]{0,16})?)$/;
const TRAILING = /(?<!\r)\r+$/;
const UP = /\u001b\[\d{0,4}A/;
const MOVES = /(\n|\u001b\[\d{0,4}A)/;

/** Of progress bars below each other, which move the cursor up, each stays one line. */
function redraw(draft: Draft, text: string, at: string): void {
  const { lines, times } = draft;
  let row = lines.length - (draft.isOpen ? 1 : 0) - draft.up;
  for (const part of text.split(MOVES)) {
    const isUp = UP.test(part);
    if (part === "\n" || isUp) {
      if (row === lines.length) draw("");
      row = isUp ? Math.max(0, row - Number(part.slice(2, -1) || 1)) : row + 1;
      draft.isAgain = true;
    } else if (part) {
      const written = visible(draft.isAgain ? part : (lines[row] ?? "") + part);
      draw(written || (lines[row] ?? ""));
      draft.isAgain = false;
    }
  }
  draft.isOpen = row < lines.length;
  draft.up = draft.isOpen ? lines.length - 1 - row : 0;

  function draw(line: string): void {
    lines[row] = line;
    times[row] ??= at;
  }
}

const ESCAPES = /\u001b\[[0-9;?]*[A-Za-z]/g;

/** What a terminal would leave to see: no colours, and only what follows the last carriage return. */
function visible(line: string): string {
  const plain = line.replace(ESCAPES, "").replace(TRAILING, "");
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
  unended: ReadonlyMap<string, Written>;
}

export const emptyMerged: MergedLog = { log: emptyLog, after: "", unended: new Map() };

export function addMerged(merged: MergedLog, page: MergedLogPage): MergedLog {
  const unended = new Map(merged.unended);
  const written: Written[] = [];
  for (const { task, rank, at, text } of page.chunks) {
    const name = page.ranks.length > 1 ? `[${task} ${rank}] ` : "";
    const begun = unended.get(name);
    const [first = "", ...rest] = text.split("\n");
    let last: Written = begun?.text ? { at: begun.at, text: begun.text + first } : { at, text: first };
    for (const line of rest) {
      written.push({ at: last.at, text: `${name}${last.text}\n` });
      last = { at, text: line };
    }
    unended.set(name, last);
  }
  if (page.complete) {
    for (const [name, { at, text }] of unended) if (text) written.push({ at, text: `${name}${text}\n` });
    unended.clear();
  }
  const log = { ...append(merged.log, written), complete: page.complete, removed: page.removed?.message ?? "" };
  return { log, after: page.next_after, unended };
}
