import type { JobRunTime } from "@/api/schema";
import { duration } from "@/components/format";

/** The run time in all; what was declared is told only where it is something else. */
export function runTimeText(known: JobRunTime): string {
  const { declared_seconds: declared, measured_seconds: measured } = known;
  if (measured === null) {
    return declared === null ? "not known" : `declared ${duration(declared)}; too few steps yet to measure`;
  }
  const before = declared !== null && known.differs ? `declared ${duration(declared)}, ` : "";
  const where = known.gpu_model ? ` on ${known.gpu_model}` : "";
  const after = known.outlasts_limit ? "; longer than its time limit" : "";
  return `${before}by its steps ${duration(measured)}${where}${after}`;
}
