import { describe, expect, it } from "vitest";

import { entriesOf, formatPlugin, inWords, parsePlugin, withParameter } from "@/features/virtual-clusters/plugin-text";

describe("a plugin in one line", () => {
  it.each([
    ["spread", { name: "spread", parameters: {} }],
    ["delay:relax_after_seconds=600", { name: "delay", parameters: { relax_after_seconds: 600 } }],
    ["fgd:workload=1:4:70|8:64:30", { name: "fgd", parameters: { workload: ["1:4:70", "8:64:30"] } }],
    ["fgd:workload=1:4:70|", { name: "fgd", parameters: { workload: ["1:4:70"] } }],
  ])("%s is read and written", (text, chosen) => {
    expect(parsePlugin(text)).toEqual(chosen);
    expect(formatPlugin(chosen)).toBe(text);
  });

  it("leaves out what is empty", () => {
    expect(formatPlugin({ name: "delay", parameters: { relax_after_seconds: undefined, a: "", b: [] } })).toBe("delay");
  });

  it("reads lists as people type them", () => {
    expect(entriesOf("100, 2000,", ",")).toEqual([100, 2000]);
  });

  it("is told to people in words", () => {
    expect(inWords(parsePlugin("gavel:objective=max_min,reserve=0.5"))).toBe("gavel, objective max_min, reserve 0.5");
    expect(inWords(parsePlugin("tiresias:thresholds=10|20"))).toBe("tiresias, thresholds 10, 20");
  });
});

describe("setting a parameter", () => {
  const alpha = { name: "alpha", default: 1 };

  it("keeps what differs from what it would be anyway", () => {
    expect(withParameter({ window: 5 }, alpha, 0.5)).toEqual({ window: 5, alpha: 0.5 });
  });

  it("forgets it once it is emptied or as usual", () => {
    expect(withParameter({ window: 5, alpha: 0.5 }, alpha, 1)).toEqual({ window: 5 });
    expect(withParameter({ alpha: 0.5 }, alpha, undefined)).toEqual({});
    expect(withParameter({ list: [1] }, { name: "list", default: [1, 2] }, [])).toEqual({});
    expect(withParameter({ list: [1] }, { name: "list", default: [1, 2] }, [1, 2])).toEqual({});
  });
});
