import { describe, expect, it } from "vitest";

import type { FairnessMinute, TenantFairness } from "@/api/schema";
import { curvesOf, dealingsText, gainText, scalesOf } from "@/features/fairness/words";

const tenant = (given: Partial<TenantFairness>): TenantFairness => ({
  tenant: "vision",
  weight: 1,
  jobs_running: 1,
  jobs_waiting: 0,
  demand_gpus: 4,
  own_part: {},
  entitled: {},
  received: {},
  received_mean: 0,
  entitled_mean: 0,
  rho_worst: null,
  rho_mean: null,
  envy: 0,
  envies: null,
  borrowed: 0,
  lent: 0,
  traded_in: {},
  traded_out: {},
  paid: 0,
  speed_here: 0,
  speed_alone: 0,
  gain: null,
  better_off_alone: false,
  tier: null,
  guaranteed_fraction: null,
  gpu_fraction: null,
  ...given,
});

describe("fairness in words", () => {
  it("says what sharing brings, or costs", () => {
    const said = (gain: number | null, isWorse = false, wanted = 0) =>
      gainText({ gain, better_off_alone: isWorse, demand_gpus: wanted });
    expect([said(1.12), said(1.001), said(2.5), said(0.97)]).toEqual([
      "12 % more than in a private cluster",
      "the same as in a private cluster",
      "2.5 times a private cluster",
      "3 % less than in a private cluster",
    ]);
    expect([said(0.8, true), said(0, true), said(null), said(null, false, 5)]).toEqual([
      "would be better off in a private cluster by 25 %",
      "would be better off in a private cluster",
      "no demand now",
      null,
    ]);
    const traded = tenant({ borrowed: 2, traded_in: { V100: 1 }, traded_out: { K80: 4 }, paid: 6 });
    expect(dealingsText(traded)).toBe("borrowed 2 GPUs; got 1 V100 for 4 K80; paid 6 credits");
    expect(dealingsText(tenant({ lent: 0.5 }))).toBe("lent 0.5 GPU");
  });

  it("draws every tenant's bars of a model to one scale", () => {
    const tenants = [tenant({ entitled: { V100: 2 }, received: { K80: 1 } }), tenant({ received: { V100: 3 } })];
    expect([...scalesOf(tenants)]).toEqual([
      ["K80", 1],
      ["V100", 3],
    ]);
  });

  it("draws one tenant's samples", () => {
    const sample = (name: string, received: number): FairnessMinute => ({
      at: "2026-01-01T00:00:00Z",
      tenant: name,
      entitled: 2,
      received,
      rho_worst: null,
      rho_mean: 1,
      envy: 0,
      borrowed: 0,
      lent: 0,
      traded: 0,
      paid: 0,
      gain: 1,
      gpu_fraction: null,
    });
    const { gpus, rho } = curvesOf([sample("vision", 1), sample("speech", 9), sample("vision", 3)], "vision");
    expect(gpus.x).toHaveLength(2);
    expect(gpus.series.map(({ values }) => values)).toEqual([
      [1, 3],
      [2, 2],
    ]);
    expect(rho.series.map(({ values }) => values)).toEqual([
      [null, null],
      [1, 1],
    ]);
  });
});
