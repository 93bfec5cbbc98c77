import { Link } from "@tanstack/react-router";

import { trailOf } from "@/features/cells/tree";
import styles from "@/features/cells/cells.module.css";

/** The way down to a cell; each step leads to the surroundings of that cell. */
export function Trail({ chain, at }: { chain: string; at: string }) {
  return (
    <nav aria-label="The way to this cell" className={styles.trail}>
      <Link to="/cells" search={{}}>
        All cells
      </Link>
      {trailOf(at).map((address) => (
        <Link key={address} to="/cells" search={{ chain, at: address }}>
          {address.slice(address.lastIndexOf("/") + 1)}
        </Link>
      ))}
    </nav>
  );
}
