/** The table of speeds: its columns and the words in its cells. Pure. */

import type { SpeedCell, SpeedRow } from "@/api/schema";
import { kindOf, percent, speedText } from "@/components/speeds/sources";
import { counted } from "@/components/format";

/** One cell that somebody wants to see or correct. */
export interface Chosen {
  row: SpeedRow;
  gpu_model: string;
}

/** Every model that some row names, in the order in which they first appear. */
export function modelsOf(rows: readonly SpeedRow[]): string[] {
  return [...new Set(rows.flatMap(({ speeds }) => speeds.map(({ gpu_model }) => gpu_model)))];
}

export function speedOn(row: SpeedRow, model: string): SpeedCell | undefined {
  return row.speeds.find(({ gpu_model }) => gpu_model === model);
}

/** Names a row among others: its values change, this does not. */
export function keyOf({ tenant, application, gpus, spread, partner }: SpeedRow): string {
  return JSON.stringify([tenant, application, gpus, spread, partner]);
}

/** Beside a partner it is a part of the speed alone, else samples per second. */
export function valueText(row: Pick<SpeedRow, "partner">, value: number): string {
  if (value === 0) return "does not run";
  return row.partner ? percent(value) : speedText(value);
}

/** "resnet50 of vision on 4 V100, spread over nodes". */
export function describe(row: SpeedRow, model: string): string {
  const parts = [`${kindOf(row.application).name} of ${row.tenant} on ${row.gpus} ${model}`];
  if (row.spread) parts.push("spread over nodes");
  if (row.partner) parts.push(`sharing them with ${kindOf(row.partner).name}`);
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
    return `Nothing changes: ${counted(unchanged, "speed")} in the file are known as they are.`;
  const verb = result.dry_run ? "would be" : added + changed === 1 ? "was" : "were";
  const parts = [
    added > 0 ? `${counted(added, "speed")} ${verb} added` : "",
    changed > 0 ? `${counted(changed, "speed")} ${verb} changed` : "",
    unchanged > 0 ? `${unchanged} stay as they are` : "",
  ].filter(Boolean);
  return `${parts.join(", ")}.`;
}
