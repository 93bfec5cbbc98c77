/** What the routes about the ledger and fairness say; docs/ledger.md and docs/fairness.md have the words. */

import type { components } from "@/api/schema";

type Schemas = components["schemas"];

/** Something that was bid, won, paid, traded or lent. */
export type LedgerLine = Schemas["Line"];
/** What came of deciding a line's round again. */
export type Replay = Schemas["Replay"];

export interface TenantFairness {
  tenant: string;
  weight: number;
  jobs_running: number;
  jobs_waiting: number;
  demand_gpus: number;
  own_part: Record<string, number>;
  entitled: Record<string, number>;
  received: Record<string, number>;
  received_mean: number;
  entitled_mean: number;
  rho_worst: number | null;
  rho_mean: number | null;
  envy: number;
  envies: string | null;
  borrowed: number;
  lent: number;
  traded_in: Record<string, number>;
  traded_out: Record<string, number>;
  paid: number;
  speed_here: number;
  speed_alone: number;
  gain: number | null;
  better_off_alone: boolean;
}

export interface Fairness {
  at: string | null;
  window_seconds: number;
  policy: string;
  tenants: TenantFairness[];
  open_violations: number;
}

export interface FairnessSample {
  at: string;
  tenant: string;
  entitled: number;
  received: number;
  rho_worst: number | null;
  rho_mean: number | null;
  envy: number;
  borrowed: number;
  lent: number;
  traded: number;
  paid: number;
  gain: number | null;
}

export interface Violation {
  id: number;
  virtual_cluster: string;
  tenant: string;
  began_at: string;
  ended_at: string | null;
  worst: number;
  lost_gpu_seconds: number;
  cause: string;
  message: string;
  round_number: number | null;
}
