import { describe, expect, it } from "vitest";

import type { MergedLogPage } from "@/api/schema";
import { addMerged, emptyMerged } from "@/features/job/merged-log";

function page(texts: [rank: number, text: string][], given: Partial<MergedLogPage> = {}): MergedLogPage {
  const chunks = texts.map(([rank, text], sequence) => ({ rank, task: "worker", sequence, at: "", text }));
  return { attempt: 1, ranks: [0, 1], chunks, next_after: "0:1", complete: false, removed: null, ...given };
}

describe("output of several ranks", () => {
  it("says of each line whose it is, and waits for the end of a line", () => {
    let merged = addMerged(
      emptyMerged,
      page([
        [0, "one\ntw"],
        [1, "other\n"],
      ]),
    );
    expect(merged.log.lines).toEqual(["[worker 0] one", "[worker 1] other"]);
    merged = addMerged(merged, page([[0, "o\nlast"]]));
    expect(merged.log.lines.at(-1)).toBe("[worker 0] two");
    merged = addMerged(merged, page([], { complete: true, next_after: "0:9" }));
    expect(merged.log.lines.at(-1)).toBe("[worker 0] last");
    expect(merged).toMatchObject({ after: "0:9", log: { complete: true } });
  });

  it("names nobody where there is only one", () => {
    expect(addMerged(emptyMerged, page([[1, "alone\n"]], { ranks: [1] })).log.lines).toEqual(["alone"]);
  });
});
