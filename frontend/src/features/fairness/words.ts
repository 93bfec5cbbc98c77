/** What is shown of fairness: sentences, curves, the scale of bars. Pure. */

import type { FairnessMinute, TenantFairness } from "@/api/schema";
import type { ChartSeries } from "@/components/chart";
import { counted, creditsText } from "@/components/format";
import { figure, gpusText } from "@/components/ledger/words";

/** Below this part nobody could tell the difference. */
const NEGLIGIBLE = 0.005;

/**
 * What sharing brings a tenant or costs it, against its own part of the virtual cluster alone; null where nobody
 * knows: several tenants are shown as one, or it has only just come.
 */
export function gainText({
  gain,
  better_off_alone: isWorse,
  demand_gpus: wanted,
}: Pick<TenantFairness, "gain" | "better_off_alone" | "demand_gpus">): string | null {
  if (gain === null) return wanted > 0 ? null : "no demand now";
  if (isWorse)
    return gain > 0
      ? `would be better off in a private cluster by ${percent(1 / gain - 1)}`
      : "would be better off in a private cluster";
  if (Math.abs(gain - 1) < NEGLIGIBLE) return "the same as in a private cluster";
  if (gain >= 2) return `${figure(gain)} times a private cluster`;
  return gain > 1
    ? `${percent(gain - 1)} more than in a private cluster`
    : `${percent(1 - gain)} less than in a private cluster`;
}

export function percent(part: number): string {
  return `${Math.round(part * 100)} %`;
}

/** What it has of others and others of it: "borrowed 2 GPUs; got 1 V100 for 4 K80; paid 6 credits". */
export function dealingsText(
  tenant: Pick<TenantFairness, "borrowed" | "lent" | "traded_in" | "traded_out" | "paid">,
): string {
  const [gained, given] = [gpusText(tenant.traded_in), gpusText(tenant.traded_out)];
  return [
    tenant.borrowed > 0 && `borrowed ${counted(tenant.borrowed, "GPU")}`,
    tenant.lent > 0 && `lent ${counted(tenant.lent, "GPU")}`,
    (gained || given) && `got ${gained || "nothing"} for ${given || "nothing"}`,
    tenant.paid > 0 && `paid ${creditsText(tenant.paid)}`,
  ]
    .filter(Boolean)
    .join("; ");
}

/** GPU models of which anybody has, or is entitled to, some; each with the most that anybody has. */
export function scalesOf(tenants: readonly TenantFairness[]): ReadonlyMap<string, number> {
  const scales = new Map<string, number>();
  for (const { own_part: own, entitled, received } of tenants)
    for (const gpus of [own, entitled, received])
      for (const [model, number] of Object.entries(gpus)) scales.set(model, Math.max(scales.get(model) ?? 0, number));
  return new Map([...scales].sort(([a], [b]) => a.localeCompare(b)));
}

interface Curves {
  x: number[];
  series: ChartSeries[];
}

/** GPUs that one tenant received and was entitled to, and its finish-time fairness, over time. */
export function curvesOf(samples: readonly FairnessMinute[], tenant: string): { gpus: Curves; rho: Curves } {
  const own = samples.filter((sample) => sample.tenant === tenant);
  const x = own.map(({ at }) => Date.parse(at) / 1000);
  return {
    gpus: {
      x,
      series: [
        { label: "Received", token: "crop-1", values: own.map(({ received }) => received) },
        { label: "Entitled", token: "crop-5", dashed: true, values: own.map(({ entitled }) => entitled) },
      ],
    },
    rho: {
      x,
      series: [
        { label: "Worst app", token: "crop-5", values: own.map(({ rho_worst: worst }) => worst) },
        { label: "Mean", token: "crop-4", dashed: true, values: own.map(({ rho_mean: mean }) => mean) },
      ],
    },
  };
}
