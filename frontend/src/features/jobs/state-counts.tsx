import type { JobCounts } from "@/api/schema";
import { count } from "@/components/format";
import { JOB_STATES } from "@/components/job-search";
import styles from "@/features/jobs/jobs-page.module.css";
import { IconButton } from "@/ui/button";

/** `92 queued, 8 running`: the states that some are in. */
export function countWords(counts: JobCounts): string {
  return JOB_STATES.filter((state) => counts[state])
    .map((state) => `${count(counts[state])} ${state}`)
    .join(", ");
}

/** The same as a bar; what its parts mean stands beside it. */
export function StateBar({ counts }: { counts: JobCounts }) {
  return (
    <span className={styles.bar} aria-hidden>
      {JOB_STATES.map((state) => (
        <span key={state} data-state={state} style={{ flexGrow: counts[state] }} />
      ))}
    </span>
  );
}

/** Shows and hides what a row stands for. */
export function Unfold({ name, isOpen, onToggle }: { name: string; isOpen: boolean; onToggle: () => void }) {
  return (
    <IconButton
      label={`Jobs of ${name}`}
      icon={<span aria-hidden>{isOpen ? "▾" : "▸"}</span>}
      aria-expanded={isOpen}
      onClick={onToggle}
    />
  );
}
