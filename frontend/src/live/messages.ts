/** What /ws/live sends and understands. */

import type {
  Job,
  Line as LedgerLine,
  LogChunk,
  Node,
  ProgressPoint,
  Round,
  UsagePoint,
  VirtualCluster,
  Why,
} from "@/api/schema";

/** Whole objects by kind; each is known by its id in REST addresses. */
export interface Objects {
  job: Job;
  node: Node;
  virtual_cluster: VirtualCluster;
  round: Round;
}

export type Kind = keyof Objects;

export type WhyData = Pick<Why, "reasons" | "position">;

export type PredictionData = Pick<Why, "prediction" | "no_prediction">;

export type ObjectMessage =
  | { [K in Kind]: { kind: K; id: number; version: number; data: Objects[K] } }[Kind]
  /** Only that they changed: what one may do with them differs by person, so they are asked for again. */
  | { kind: "offer" | "loan" | "account"; id: number; version: number }
  | { kind: "why"; id: number; version: number; data: WhyData }
  | { kind: "prediction"; id: number; version: number; data: PredictionData };

export interface LogMessage {
  type: "log";
  job: number;
  attempt: number;
  rank: number;
  chunks: LogChunk[];
}

export interface ProgressMessage {
  type: "progress";
  job: number;
  points: ProgressPoint[];
}

export interface LedgerMessage {
  type: "ledger";
  lines: LedgerLine[];
}

export interface GpuSample {
  index: number;
  utilisation_percent: number;
  memory_used_bytes: number;
}

export type ServerMessage =
  | { type: "hello"; version: number; server: string }
  | { type: "objects"; objects: ObjectMessage[] }
  | { type: "queues"; round: number; positions: Record<string, number> }
  | { type: "usage"; point: UsagePoint }
  | { type: "samples"; node: string; gpus: GpuSample[] }
  | LogMessage
  | ProgressMessage
  | LedgerMessage
  | { type: "pong" };

export type ClientMessage =
  { type: "watch_log"; job: number } | { type: "unwatch_log"; job: number } | { type: "ping" };
