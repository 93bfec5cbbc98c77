/** The table of throughputs: its columns and the words in its cells. Pure. */

import type { ThroughputCell, ThroughputRow } from "@/api/schema";
import { jobClassOf, partnersText, percent, throughputText } from "@/components/throughputs/sources";
import { counted } from "@/components/format";

/** One cell that somebody wants to see or correct. */
export interface Chosen {
  row: ThroughputRow;
  gpu_model: string;
}

/** Every model that some row names, in the order in which they first appear. */
export function modelsOf(rows: readonly ThroughputRow[]): string[] {
  return [...new Set(rows.flatMap(({ throughputs }) => throughputs.map(({ gpu_model }) => gpu_model)))];
}

export function throughputOn(row: ThroughputRow, model: string): ThroughputCell | undefined {
  return row.throughputs.find(({ gpu_model }) => gpu_model === model);
}

/** Names a row among others: its values change, this does not. */
export function keyOf({ tenant, application, gpus, spread, partner, gpu_limit }: ThroughputRow): string {
  return JSON.stringify([tenant, application, gpus, spread, partner, gpu_limit]);
}

/** Beside a partner it is a part of the throughput alone, else samples per second. */
export function valueText(row: Pick<ThroughputRow, "partner">, value: number): string {
  if (value === 0) return "does not run";
  return row.partner ? percent(value) : throughputText(value);
}

/** "resnet50 of vision on 4 V100, spread over nodes". */
export function describe(row: ThroughputRow, model: string): string {
  const parts = [`${jobClassOf(row.application).name} of ${row.tenant} on ${row.gpus} ${model}`];
  if (row.gpu_limit < 1) parts.push(`held to ${percent(row.gpu_limit)} of each`);
  if (row.spread) parts.push("spread over nodes");
  if (row.partner) parts.push(`sharing them with ${partnersText(row.partner)}`);
  return parts.join(", ");
}

/** What an import did or would do, in a sentence. */
export function importSentence(result: {
  dry_run: boolean;
  added: number;
  changed: number;
  unchanged: number;
}): string {
  const { added, changed, unchanged } = result;
  if (added + changed === 0)
    return `Nothing changes: ${counted(unchanged, "throughput")} in the file equal the known ones.`;
  const verb = result.dry_run ? "would be" : added + changed === 1 ? "was" : "were";
  const parts = [
    added > 0 ? `${counted(added, "throughput")} ${verb} added` : "",
    changed > 0 ? `${counted(changed, "throughput")} ${verb} changed` : "",
    unchanged > 0 ? `${unchanged} unchanged` : "",
  ].filter(Boolean);
  return `${parts.join(", ")}.`;
}
