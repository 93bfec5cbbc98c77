/** What the routes about cells, waiting anomalies and advice say; docs/cells.md has the words. */

import type { components } from "@/api/schema";
import type { FieldProblem } from "@/api/types";

type Schemas = components["schemas"];

export interface CellTypeEntry {
  of: string;
  count?: number;
  node?: boolean;
}

export interface PhysicalEntry {
  type: string;
  name?: string;
  nodes?: string[];
  gpus?: Record<string, number[]>;
}

export interface VirtualEntry {
  cells?: Record<string, number>;
  pinned?: Record<string, string>;
}

/** A specification of cells as JSON: what a YAML file of it holds. Half-written ones lack what they need. */
export interface CellDocument {
  types?: Record<string, CellTypeEntry>;
  physical?: PhysicalEntry[];
  virtual_clusters?: Record<string, VirtualEntry>;
}

export type Cells = Schemas["Cells"];
export type CellCheck = Schemas["CellsCheck"];
export type CellEffect = Schemas["CellEffect"];
export type CellNode = Schemas["CellNode"];
export type ChainSummary = Schemas["ChainSummary"];
export type ChainLevel = Schemas["ChainCells"];
export type OwnedCells = Schemas["OwnedCells"];
export type VirtualClusterCells = Schemas["VirtualClusterCells"];

/** Use of a cell's GPUs, in GPUs; the four add up to `gpus`. */
export type CellUse = Pick<CellNode, "gpus" | "free" | "used" | "opportunistic" | "bad">;

export interface Anomaly {
  job: number;
  name: string;
  tenant: string | null;
  gpus: number;
  submitted_at: string;
  real_delay_seconds: number;
  private_delay_seconds: number;
  extra_seconds: number;
  hard_affinity: boolean;
  cause: "fragmentation" | "hardware" | "reclaim" | "order" | "quota" | "other";
  message: string;
  round: number | null;
}

export interface Anomalies {
  virtual_cluster: string;
  state: "never" | "waiting" | "done" | "failed";
  problem: string;
  made_at: string | null;
  since: string | null;
  until: string | null;
  jobs: number;
  delay: {
    real_mean_seconds: number;
    private_mean_seconds: number;
    real_p95_seconds: number;
    private_p95_seconds: number;
  } | null;
  series: { at: string; real_seconds: number | null; private_seconds: number | null }[];
  tolerance_seconds: number;
  count: number;
  total_extra_seconds: number;
  hard_affinity_count: number;
  anomalies: Anomaly[];
  assumption: string;
}

export interface AdviceFigures {
  cells: Record<string, number>;
  gpus: number;
  delay_mean_seconds: number | null;
  delay_p95_seconds: number | null;
  utilisation: number | null;
  cost_per_day: number | null;
}

export type AdviceTotals = Pick<AdviceFigures, "gpus" | "delay_mean_seconds" | "utilisation" | "cost_per_day">;

export interface Advice {
  id: string;
  state: "waiting" | "running" | "done" | "failed";
  problem: string;
  fields: FieldProblem[];
  asked_at: string;
  asked_by: string;
  days: number;
  jobs: number;
  made_at: string | null;
  assumption: string;
  rows: { virtual_cluster: string; today: AdviceFigures; advised: AdviceFigures; why: string }[];
  totals: { today: AdviceTotals; advised: AdviceTotals } | null;
  curves: Record<string, { cells: Record<string, number>; gpus: number; delay_mean_seconds: number | null }[]>;
  specification?: CellDocument;
  based_on_version: number;
  applied_at: string | null;
}
