/** What the routes about the market say; docs/market.md has the words. Credits have up to three decimals. */

/** Guarantees that change hands together: GPUs by model, cells by type. */
export interface Lot {
  gpus?: Record<string, number>;
  cells?: Record<string, number>;
}

export interface Offer {
  id: number;
  version: number;
  lender: string;
  lot: Lot;
  gpus: number;
  gpu_models: string[];
  starts_at: string | null;
  ends_at: string;
  price_per_gpu_hour: number;
  in_return: Lot | null;
  state: "open" | "taken" | "withdrawn" | "expired";
  rule: number | null;
  made_by: string;
  made_at: string;
  loan: number | null;
  cost_now: number;
  may_withdraw: boolean;
}

export interface Loan {
  id: number;
  version: number;
  offer: number;
  lender: string;
  borrower: string;
  lot: Lot;
  in_return: Lot | null;
  gpus: number;
  gpu_models: string[];
  starts_at: string;
  ends_at: string;
  state: "coming" | "active" | "ended";
  ended_by: string;
  price_per_gpu_hour: number;
  paid: number;
  refunded: number;
  taken_by: string;
  taken_at: string;
  round_number: number | null;
  may_end: boolean;
}

export interface Rule {
  id: number;
  virtual_cluster: string;
  kind: "lend" | "borrow";
  lot: Lot | null;
  idle_seconds: number | null;
  lend_seconds: number | null;
  gpu_models: string[];
  most_gpus: number | null;
  waiting_seconds: number | null;
  price_per_gpu_hour: number;
  made_by: string;
  made_at: string;
  may_delete: boolean;
}

export interface Account {
  virtual_cluster: string;
  version: number;
  balance: number;
  earned: number;
  spent: number;
  granted: number;
  allowance: Allowance | null;
  may_act: boolean;
}

export interface Allowance {
  credits: number;
  every_seconds: number;
  next_at: string;
}

export interface Transfer {
  id: number;
  at: string;
  kind: "grant" | "allowance" | "payment" | "refund" | "taken_back";
  from: string;
  to: string;
  credits: number;
  loan: number | null;
  reason: string;
  by: string;
  round_number: number | null;
}

/** A part of another's guarantee that is in force for a while, or of one's own that is not. */
export interface LentLot {
  loan: number;
  lot: Lot;
  ends_at: string;
}

export interface VirtualClusterLoans {
  /** What it is guaranteed when nothing is lent or borrowed. */
  own_guaranteed: Record<string, number>;
  lent: (LentLot & { to: string })[];
  borrowed: (LentLot & { from: string })[];
}
