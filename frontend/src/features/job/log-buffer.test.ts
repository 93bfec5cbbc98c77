import { describe, expect, it } from "vitest";

import type { LogChunk, LogPage, MergedLogPage } from "@/api/schema";
import {
  addMerged,
  addPage,
  addStreamed,
  emptyLog,
  emptyMerged,
  findLines,
  hasGap,
  KEPT_LINES,
} from "@/features/job/log-buffer";

function chunk(sequence: number, text = `line ${sequence}\n`): LogChunk {
  return { sequence, at: "2026-01-01T00:00:00Z", text };
}

function page(chunks: LogChunk[], given: Partial<LogPage> = {}): LogPage {
  const next_after = chunks.at(-1)?.sequence ?? -1;
  const ends = { next_after, complete: false, truncated: false, removed: null };
  return { attempt: 1, rank: 0, ranks: [0], tasks: ["main"], chunks, ...ends, ...given };
}

describe("a log put together", () => {
  it("continues a page with streamed chunks, whatever comes twice", () => {
    let log = addPage(emptyLog, page([chunk(0), chunk(1)]));
    log = addStreamed(log, [chunk(1), chunk(2)]);
    log = addStreamed(log, [chunk(2)]);
    expect(log.lines).toEqual(["line 0", "line 1", "line 2"]);
  });

  it.each([1, 4, 1000])("keeps progress bars below each other on a line each, in pieces of %i", (size) => {
    let text = "begin\n\router 0%";
    for (let done = 0; done <= 100; done += 10) text += `\n\rinner ${done}%\u001b[A\router ${done / 2}%`;
    text += "\n\ndone\n";
    let log = emptyLog;
    for (let start = 0, at = 0; at < text.length; start++, at += size) {
      log = addStreamed(log, [chunk(start, text.slice(at, at + size))]);
    }
    expect(log.lines).toEqual(["begin", "outer 50%", "inner 100%", "done"]);
    expect(log.isOpen).toBe(false);
  });

  it("shows nothing past a gap until the gap is filled, then everything in order", () => {
    let log = addStreamed(addPage(emptyLog, page([chunk(0)])), [chunk(3), chunk(4)]);
    expect(log.lines).toEqual(["line 0"]);
    expect(hasGap(log)).toBe(true);
    log = addPage(log, page([chunk(1), chunk(2)]));
    expect(log.lines).toEqual(["line 0", "line 1", "line 2", "line 3", "line 4"]);
    expect(hasGap(log)).toBe(false);
  });

  it("believes REST where numbers are missing for good", () => {
    const log = addPage(addStreamed(emptyLog, [chunk(9)]), page([chunk(5), chunk(8)], { truncated: true }));
    expect(log.lines).toEqual(["line 5", "line 8", "line 9"]);
    expect(log.truncated).toBe(true);
  });

  it("joins a line that is cut between chunks", () => {
    const log = addStreamed(addPage(emptyLog, page([chunk(0, "epoch 1 lo")])), [
      chunk(1, "ss 0.3\nepoch"),
      chunk(2, " 2\n"),
    ]);
    expect(log.lines).toEqual(["epoch 1 loss 0.3", "epoch 2"]);
    expect(log.isOpen).toBe(false);
  });

  it("shows what a terminal would: no colours, the last state of a progress bar", () => {
    const log = addPage(emptyLog, page([chunk(0, "\u001b[31mred\u001b[0m\n10%\r50%\r99%\nend\r\n")]));
    expect(log.lines).toEqual(["red", "99%", "end"]);
  });

  it("takes no longer for carriage returns in a row", () => {
    // At each of them the rest was looked through: hours.
    const returns = "\r".repeat(4_000_000);
    const log = addPage(emptyLog, page([chunk(0, `1%${returns}2%\n3%${returns}`), chunk(1, `${returns}4%`)]));
    expect(log.lines).toEqual(["2%", "4%"]);
    expect(addStreamed(log, [chunk(2, returns)]).held).toBe("\r");
  });

  it("keeps empty lines", () => {
    expect(addPage(emptyLog, page([chunk(0, "a\n\nb\n\n")])).lines).toEqual(["a", "", "b", ""]);
  });

  it("drops the oldest lines of an endless log and says how many", () => {
    const log = addPage(emptyLog, page([chunk(0, "x\n".repeat(KEPT_LINES + 5))]));
    expect(log.lines).toHaveLength(KEPT_LINES);
    expect(log.dropped).toBe(5);
  });

  it("shows what comes after a move up beyond the lines that it keeps", () => {
    const log = addPage(emptyLog, page([chunk(0, `${"x\n".repeat(KEPT_LINES + 10_000)}${"\u001b[9999A".repeat(3)}`)]));
    expect(log).toMatchObject({ dropped: 10_001, isOpen: true });
    const after = addStreamed(log, [chunk(1, "seen 0\nseen 1\n")]);
    expect(after.lines.slice(0, 3)).toEqual(["seen 0", "seen 1", "x"]);
    expect(after.times).toHaveLength(KEPT_LINES);
  });

  it("finds lines without regard to case", () => {
    expect(findLines(["Loss 1", "acc", "loss 2"], "LOSS")).toEqual([0, 2]);
    expect(findLines(["a"], "")).toEqual([]);
  });
});

function mergedPage(texts: [rank: number, text: string][], given: Partial<MergedLogPage> = {}): MergedLogPage {
  const chunks = texts.map(([rank, text], sequence) => ({ rank, task: "worker", sequence, at: "", text }));
  return { attempt: 1, ranks: [0, 1], chunks, next_after: "0:1", complete: false, removed: null, ...given };
}

describe("output of several ranks", () => {
  it("says of each line whose it is, and waits for the end of a line", () => {
    let merged = addMerged(
      emptyMerged,
      mergedPage([
        [0, "one\ntw"],
        [1, "other\n"],
      ]),
    );
    expect(merged.log.lines).toEqual(["[worker 0] one", "[worker 1] other"]);
    merged = addMerged(merged, mergedPage([[0, "o\nlast"]]));
    expect(merged.log.lines.at(-1)).toBe("[worker 0] two");
    merged = addMerged(merged, mergedPage([], { complete: true, next_after: "0:9" }));
    expect(merged.log.lines.at(-1)).toBe("[worker 0] last");
    expect(merged).toMatchObject({ after: "0:9", log: { complete: true } });
  });

  it("names nobody where there is only one", () => {
    expect(addMerged(emptyMerged, mergedPage([[1, "alone\n"]], { ranks: [1] })).log.lines).toEqual(["alone"]);
  });
});

describe("the times of lines", () => {
  const written = (sequence: number, second: number, text: string): LogChunk => ({
    sequence,
    at: `2026-01-01T00:00:0${second}Z`,
    text,
  });
  const seconds = (times: readonly string[]) => times.map((at) => Number(at.slice(17, 19)));

  it("are of the chunk in which each began", () => {
    let log = addPage(emptyLog, page([written(0, 1, "a\nb"), written(1, 2, "b\nc\n")]));
    log = addStreamed(log, [written(2, 3, "d\n")]);
    expect(log.lines).toEqual(["a", "bb", "c", "d"]);
    expect(seconds(log.times)).toEqual([1, 1, 2, 3]);
  });

  it("stay with a line that is drawn again, and go with one that is dropped", () => {
    let log = addStreamed(emptyLog, [
      written(0, 1, "outer 0%\ninner 0%"),
      written(1, 2, "\u001b[A\router 1%\n\rinner 9%\n"),
    ]);
    log = addStreamed(log, [written(2, 3, "done\n")]);
    expect(log.lines).toEqual(["outer 1%", "inner 9%", "done"]);
    expect(seconds(log.times)).toEqual([1, 1, 3]);
    log = addStreamed(log, [written(3, 4, "x\n".repeat(KEPT_LINES - 1))]);
    expect(seconds(log.times.slice(0, 2))).toEqual([3, 4]);
    expect(log.times).toHaveLength(log.lines.length);
  });

  it("are each rank's own in the output of several", () => {
    const ranked = (rank: number, second: number, text: string) => ({
      ...written(0, second, text),
      rank,
      task: "main",
    });
    const merged = addMerged(emptyMerged, {
      ...mergedPage([]),
      ranks: [0, 1],
      chunks: [ranked(0, 1, "begun "), ranked(1, 2, "other\n"), ranked(0, 3, "ended\n")],
    });
    expect(merged.log.lines).toEqual(["[main 1] other", "[main 0] begun ended"]);
    expect(seconds(merged.log.times)).toEqual([2, 1]);
  });
});
