import { describe, expect, it } from "vitest";

import type { CellType, MarketRule, OwnedCells } from "@/api/schema";
import { choicesOf, gpusIn, gpusOf, lotOf } from "@/features/market/choices";
import { instantOf, localInput, offerTime, partLeft, priceText, ruleText } from "@/features/market/words";
import { aVirtualCluster } from "@/testing/samples";

const now = Date.parse("2026-01-01T12:00:00Z");
const at = (minutes: number) => new Date(now + minutes * 60_000).toISOString();

describe("the market in words", () => {
  const rule: MarketRule = {
    id: 1,
    virtual_cluster: "research",
    kind: "lend",
    lot: { gpus: {}, cells: { "V100-SWITCH": 1 } },
    idle_seconds: 600,
    lend_seconds: 7200,
    gpu_models: [],
    most_gpus: null,
    waiting_seconds: null,
    price_per_gpu_hour: 1.5,
    made_by: "user vera",
    made_at: at(0),
    may_delete: true,
  };

  it("says what a rule does", () => {
    expect(ruleText(rule)).toBe(
      "lends up to 1 V100-SWITCH that has been idle for 10 min, for 2 h, at 1.5 credits a GPU-hour or more",
    );
    const borrow: MarketRule = {
      ...rule,
      kind: "borrow",
      lot: null,
      gpu_models: ["P100", "V100"],
      most_gpus: 4,
      waiting_seconds: 300,
      price_per_gpu_hour: 0,
    };
    expect(ruleText(borrow)).toBe(
      "borrows up to 4 GPUs (P100 or V100) once its jobs have waited for 5 min, if they are free",
    );
  });

  it("says from when until when, and for what", () => {
    expect(offerTime({ starts_at: null, ends_at: at(120) }, now)).toMatch(/^now until \S+ \(2 h\)$/);
    expect(offerTime({ starts_at: at(-60), ends_at: at(30) }, now)).toMatch(/^now until \S+ \(30 min\)$/);
    expect(offerTime({ starts_at: at(60), ends_at: at(120) }, now)).toMatch(/^\S+ until \S+ \(1 h\)$/);
    expect(priceText({ price_per_gpu_hour: 0, in_return: null })).toBe("free");
    expect(priceText({ price_per_gpu_hour: 2, in_return: { gpus: { P100: 1 }, cells: {} } })).toBe(
      "2 a GPU-hour and 1 P100 in return",
    );
  });

  it("knows how much of a loan is left", () => {
    const loan = { starts_at: at(-30), ends_at: at(10) };
    expect(partLeft(loan, now)).toBe(0.25);
    expect(partLeft(loan, now + 3_600_000)).toBe(0);
  });

  it("reads local time as it writes it", () => {
    expect(instantOf(localInput(now))).toBe(new Date(now).toISOString());
    expect(instantOf("")).toBe("");
  });
});

describe("what can be offered", () => {
  const types: Record<string, CellType> = {
    "V100-SWITCH": { of: "V100", count: 2 },
    "V100-NODE": { of: "V100-SWITCH", count: 2, node: true },
  };
  const owned = (type: string, gpus: number, number: number, free: number): OwnedCells => ({
    chain: "V100-NODE",
    type,
    level: 1,
    gpus,
    owned: number,
    bound: number - free,
    free,
    doomed: 0,
    pinned: false,
    name: "",
    addresses: [],
  });
  const cluster = aVirtualCluster({
    guaranteed: { V100: 10, P100: 3 },
    own_guaranteed: { V100: 10, P100: 4 },
    cells: { "V100-NODE": 2, "V100-SWITCH": 1 },
    usage: { P100: { guaranteed_in_use: 1, opportunistic_in_use: 0 } },
  });
  const choices = choicesOf(cluster, types, ["V100"], [owned("V100-NODE", 4, 2, 1), owned("V100-SWITCH", 2, 1, 1)]);

  it("is what is counted, cells, and parts of cells", () => {
    const told = choices.map(({ name, owned: number, idle, within }) => [name, number, idle, within]);
    expect(told).toEqual([
      ["P100", 4, 2, ""],
      ["V100-NODE", 2, 1, ""],
      ["V100-SWITCH", 5, 3, ""],
      ["V100", 10, 6, "V100-SWITCH"],
    ]);
    expect(gpusIn(types, "V100-NODE")).toBe(4);
  });

  it("makes a lot of what was asked for", () => {
    const counts = { "gpus.P100": 2, "cells.V100-SWITCH": 1, "cells.V100-NODE": undefined };
    expect(lotOf(counts)).toEqual({ gpus: { P100: 2 }, cells: { "V100-SWITCH": 1 } });
    expect(gpusOf(choices, counts)).toBe(4);
  });
});
