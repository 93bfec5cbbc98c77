import { describe, expect, it } from "vitest";

import {
  ago,
  bytes,
  counted,
  creditsText,
  duration,
  gpuHours,
  inLocalTime,
  lotText,
  moment,
  secondsBetween,
  timeUnit,
  visible,
  words,
} from "@/components/format";

describe("durations", () => {
  it.each([
    [0, "0 s"],
    [59.9, "59 s"],
    [61, "1 min 01 s"],
    [3600, "1 h"],
    [3660, "1 h 01 min"],
    [72 * 3600, "3 d"],
    [50 * 3600, "2 d 2 h"],
    [-3, "0 s"],
  ])("%d seconds are %s", (seconds, text) => expect(duration(seconds)).toBe(text));

  it.each([
    [299, "seconds"],
    [300, "minutes"],
    [18_000, "hours"],
  ])("up to %d seconds are drawn in %s", (longest, name) => expect(timeUnit(longest).name).toBe(name));

  it("runs to now while there is no end", () => {
    const now = Date.parse("2026-01-01T00:01:00Z");
    expect(secondsBetween("2026-01-01T00:00:00Z", null, now)).toBe(60);
    expect(secondsBetween("2026-01-01T00:00:00Z", "2026-01-01T00:00:10Z", now)).toBe(10);
    expect(secondsBetween(null, null, now)).toBeNull();
    expect(ago("2026-01-01T00:00:58Z", now)).toBe("just now");
  });
});

describe("amounts", () => {
  it("reads as people write them", () => {
    expect(bytes(16 * 2 ** 30)).toBe("16 GiB");
    expect(bytes(1536)).toBe("1.5 KiB");
    expect(counted(1, "GPU")).toBe("1 GPU");
    expect(counted(12_000, "GPU")).toBe("12,000 GPUs");
    expect(gpuHours(90)).toBe("90 GPU s");
    expect(gpuHours(9000)).toBe("2.5 GPU h");
    expect(words("time_limit")).toBe("Time limit");
  });
});

describe("a lot in words", () => {
  it("names GPUs, then cells, and nothing of which there is none", () => {
    expect(lotText({ gpus: { P100: 2, K80: 0 }, cells: { "V100-SWITCH": 1 } })).toBe("2 P100, 1 V100-SWITCH");
    expect(lotText({})).toBe("nothing");
  });

  it("costs credits to the thousandth", () => {
    expect([1, 0, 1.5, 1234.5678].map(creditsText)).toEqual([
      "1 credit",
      "0 credits",
      "1.5 credits",
      "1,234.568 credits",
    ]);
  });
});

describe("text of other people", () => {
  it("shows what would reorder or hide it, at its length", () => {
    const text = "admin\u202eeci\u2066\u200b\u001b[2J\u007f\u009b";
    expect(visible(text)).toBe("admin\ufffdeci\ufffd\ufffd\u241b[2J\u2421\ufffd");
    expect(visible(text)).toHaveLength(text.length);
  });

  it("leaves words, tabs and lines as they are", () => {
    expect(visible("größe 日本\tand\nlines")).toBe("größe 日本\tand\nlines");
  });
});

describe("times in the server's sentences", () => {
  it("are those of the reader's clock, as those beside them are", () => {
    const said = "Lent until 23:10:03 UTC on 25 November, at a price.";
    const at = moment("2026-11-25T23:10:03Z");
    expect(inLocalTime(said, "2026-11-25T22:10:03Z")).toBe(`Lent until ${at}, at a price.`);
  });

  it("may name their year", () => {
    const at = moment("2026-11-26T04:39:17Z");
    expect(inLocalTime("offers 1 K80 until 2026-11-26 04:39:17 UTC", 0)).toBe(`offers 1 K80 until ${at}`);
  });

  it("get no seconds that the server does not state", () => {
    const at = moment("2026-11-26T04:39:00Z").replace(/:00$/, "");
    expect(inLocalTime("offers 1 K80 until 2026-11-26 04:39 UTC", 0)).toBe(`offers 1 K80 until ${at}`);
  });

  it("are of the nearest year, and stay as they are where they are none", () => {
    const at = moment("2027-01-01T00:30:00Z");
    expect(inLocalTime("until 00:30:00 UTC on 1 January", "2026-12-31T23:00:00Z")).toBe(`until ${at}`);
    expect(inLocalTime("99:99:99 UTC on 40 Nonsense", "2026-12-31T23:00:00Z")).toBe("99:99:99 UTC on 40 Nonsense");
  });
});
