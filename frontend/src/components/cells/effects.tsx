import type { CellEffect } from "@/api/schema";
import { counted } from "@/components/format";
import { JobLinks } from "@/components/job-links";
import styles from "@/components/cells/effects.module.css";

/** "3 running jobs of vision would lose their guarantee and run on as opportunistic." */
export function lapseText({ virtual_cluster, lapsing }: CellEffect): string {
  const their = lapsing === 1 ? "its" : "their";
  return `${counted(lapsing, "running job")} of ${virtual_cluster} would lose ${their} guarantee and run on as opportunistic`;
}

export function lapsesOf(effects: readonly CellEffect[] | undefined): CellEffect[] {
  return (effects ?? []).filter(({ lapsing }) => lapsing > 0);
}

/** What running jobs would lose; nothing where they lose nothing. */
export function Effects({ effects }: { effects: readonly CellEffect[] }) {
  return (
    <ul className={styles.effects}>
      {effects.map((effect) => (
        <li key={effect.virtual_cluster}>
          {lapseText(effect)}: <JobLinks ids={effect.jobs} />
          {effect.lapsing > effect.jobs.length && " and others"}
        </li>
      ))}
    </ul>
  );
}
