import { CircleHelp, FileText, Gauge, PencilLine, Sigma, type LucideIcon } from "lucide-react";

import type { SourceEnum } from "@/api/schema";
import { isGuess, percent, SOURCE_MEANINGS } from "@/components/throughputs/sources";
import styles from "@/components/throughputs/throughputs.module.css";

const ICONS: Record<SourceEnum, LucideIcon> = {
  corrected: PencilLine,
  measured: Gauge,
  declared: FileText,
  estimated: Sigma,
  assumed: CircleHelp,
};

interface SourceMarkProps {
  source: SourceEnum | null;
  samples?: number;
  confidence?: number;
}

/** From where a throughput is known: a word and a sign, and how much stands behind it. */
export function SourceMark({ source, samples = 0, confidence }: SourceMarkProps) {
  if (source === null) return <span className={styles.source}>nothing known</span>;
  const Icon = ICONS[source];
  const sureness = confidence === undefined ? "" : `; ${percent(confidence)} confident`;
  return (
    <span
      className={styles.source}
      data-guess={isGuess(source) || undefined}
      title={SOURCE_MEANINGS[source] + sureness}
    >
      <Icon size={12} aria-hidden />
      {source}
      {source === "measured" && samples > 0 && <span className={styles.samples}>× {samples}</span>}
    </span>
  );
}
