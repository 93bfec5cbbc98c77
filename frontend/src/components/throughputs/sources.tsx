/** Throughputs in words. Pure. */

import { CircleHelp, FileText, Gauge, type LucideIcon, PencilLine, Sigma } from "lucide-react";

import type { SourceEnum } from "@/api/schema";
import { count } from "@/components/format";
import styles from "@/components/throughputs/throughputs.module.css";

/** Prefix of the class of jobs that state no application: they are known by their name. */
const BY_NAME = "name:";

/** What a job class is called, and whether that is only the name of its jobs. */
export function jobClassOf(application: string): { name: string; byName: boolean } {
  return application.startsWith(BY_NAME)
    ? { name: application.slice(BY_NAME.length), byName: true }
    : { name: application, byName: false };
}

/** Who shares the GPUs of a job class: "bert and gpt". */
export function partnersText(partner: string): string {
  const names = partner.split("+").map((application) => jobClassOf(application).name);
  return names.length > 1 ? `${names.slice(0, -1).join(", ")} and ${names[names.length - 1]}` : names.join();
}

/** Not known from this job class itself. */
export function isGuess(source: SourceEnum | null): boolean {
  return source === "estimated" || source === "assumed" || source === null;
}

export const SOURCE_MEANINGS: Record<SourceEnum, string> = {
  corrected: "A person set this value; it overrides all others",
  measured: "Measured from the progress of running jobs",
  declared: "Declared in the jobs' specifications",
  estimated: "Estimated from similar job classes",
  assumed: "Not known: assumed to be as slow as the slowest known model",
};

/** "812", "81.3", "0.813": three digits that count. */
export function throughputText(value: number): string {
  return value >= 100 ? count(Math.round(value)) : String(Number(value.toPrecision(3)));
}

export function percent(part: number): string {
  const percentage = 100 * part;
  return `${percentage > 0 && percentage < 1 ? "under 1" : Math.round(percentage)} %`;
}

/** How sure the platform is, in one word. */
export function confidenceWord(confidence: number): string {
  if (confidence >= 0.8) return "sure";
  return confidence >= 0.5 ? "fairly sure" : "not sure";
}

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

/** What `SourceMark` shows, as text. */
export function sourceText(source: SourceEnum | null, samples = 0): string {
  if (source === null) return "nothing known";
  return source === "measured" && samples > 0 ? `measured × ${samples}` : source;
}

/** From where a throughput is known: a word and a sign, and how much stands behind it. */
export function SourceMark({ source, samples = 0, confidence }: SourceMarkProps) {
  if (source === null) return <span className={styles.source}>{sourceText(source)}</span>;
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
      {source === "measured" && samples > 0 && <span className={styles.samples}> × {samples}</span>}
    </span>
  );
}
