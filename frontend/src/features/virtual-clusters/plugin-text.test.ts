import { describe, expect, it } from "vitest";

import { entriesOf, formatPlugin, parsePlugin } from "@/features/virtual-clusters/plugin-text";

describe("a placer in one line", () => {
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
});
