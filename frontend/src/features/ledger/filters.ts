/** Whether a line that was heard belongs to what is shown. Pure; the server filters by the same. */

import type { LedgerFilters } from "@/api/ledger-queries";
import type { Line as LedgerLine } from "@/api/schema";

export function matches({ kind, view, party, job, round }: LedgerFilters, line: LedgerLine): boolean {
  return (
    (kind === undefined || line.kind === kind) &&
    (view === undefined || line.view === view) &&
    (party === undefined || line.party === party || line.counterparty === party) &&
    (job === undefined || line.jobs.includes(job)) &&
    (round === undefined || line.round_number === round)
  );
}

/** A number that was typed; undefined for anything else. */
export function wholeOf(typed: string): number | undefined {
  return /^\d{1,15}$/.test(typed.trim()) ? Number(typed) : undefined;
}
