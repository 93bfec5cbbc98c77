/** What the GPUs of a cell are used for, in figures and words. Pure. */

import type { CellNode } from "@/api/schema";
import styles from "@/components/cells/cell-bar.module.css";
import { Key } from "@/ui/key";

/** Use of GPUs of a cell, in GPUs; the four add up to `gpus`. */
type CellUse = Pick<CellNode, "gpus" | Use>;

type Use = "used" | "opportunistic" | "bad" | "free";

/** In the order in which bars and sentences tell them. */
const USES: readonly Use[] = ["used", "opportunistic", "bad", "free"];

const USE_TEXT: Record<Use, string> = {
  used: "guaranteed job",
  opportunistic: "opportunistic job",
  bad: "bad: broken or out of service",
  free: "free",
};

/** "3 used, 1 bad, 4 free": only what there is. */
export function tellUse(use: CellUse): string {
  const words: Record<Use, string> = { used: "used", opportunistic: "opportunistic", bad: "bad", free: "free" };
  const parts = USES.filter((each) => use[each] > 0).map((each) => `${use[each]} ${words[each]}`);
  return parts.join(", ") || "no GPUs";
}

/** Shares of the whole in per cent, without what there is nothing of. */
export function sharesOf(use: CellUse): { use: Use; percent: number }[] {
  return USES.filter((each) => use[each] > 0).map((each) => ({
    use: each,
    percent: (100 * use[each]) / Math.max(1, use.gpus),
  }));
}

/** The cells of a virtual cluster in a few words: "2 V100-NODE, 1 V100-SWITCH". */
export function cellsText(cells: Readonly<Record<string, number>>): string {
  const owned = Object.entries(cells).filter(([, count]) => count > 0);
  return owned.map(([path, count]) => `${count} ${path}`).join(", ") || "none";
}

/** What a cell's GPUs are used for, as a bar; patterns tell what colours alone may not. */
export function CellBar({ use }: { use: CellUse }) {
  return (
    <span className={styles.bar} role="img" aria-label={tellUse(use)}>
      {sharesOf(use).map(({ use: each, percent }) => (
        <span key={each} className={styles[each]} style={{ width: `${percent}%` }} />
      ))}
    </span>
  );
}

export function CellKey() {
  return (
    <Key className={styles.key} aria-label="Colours">
      {USES.map((each) => (
        <li key={each}>
          <span className={styles[each]} aria-hidden /> {USE_TEXT[each]}
        </li>
      ))}
    </Key>
  );
}
