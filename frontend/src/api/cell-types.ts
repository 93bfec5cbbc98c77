/** What the routes about cells, waiting anomalies and advice say; docs/cells.md has the words. */

import type { components } from "@/api/schema";

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

export type Anomalies = Schemas["Anomalies"];
export type Anomaly = Schemas["Anomaly"];
export type Advice = Schemas["Advice"];
/** With what could be put in force. */
export type WholeAdvice = Schemas["WholeAdvice"];
export type AdviceFigures = Schemas["AdviceFigures"];
