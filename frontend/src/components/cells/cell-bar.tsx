import type { CellUse } from "@/components/cells/cell-use";
import { sharesOf, USE_TEXT, USES, tellUse } from "@/components/cells/cell-use";
import { Key } from "@/ui/key";
import styles from "@/components/cells/cell-bar.module.css";

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
