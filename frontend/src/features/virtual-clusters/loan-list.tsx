import { Link } from "@tanstack/react-router";

import type { VirtualCluster } from "@/api/schema";
import { clockAhead } from "@/components/format";
import { lotText } from "@/components/lot";
import { useNow } from "@/components/now";
import styles from "@/features/virtual-clusters/virtual-clusters.module.css";

/** What of its own others have at present, and what it has of theirs. */
export function LoanList({ cluster: { name, lent, borrowed } }: { cluster: VirtualCluster }) {
  const now = useNow();
  if (lent.length + borrowed.length === 0) return null;
  return (
    <ul className={styles.loans} aria-label={`Loans of ${name}`}>
      {lent.map(({ loan, lot, to, ends_at: ends }) => (
        <li key={loan}>
          <strong>Lent</strong> {lotText(lot)} to {to} until {clockAhead(ends, now)}
        </li>
      ))}
      {borrowed.map(({ loan, lot, from, ends_at: ends }) => (
        <li key={loan}>
          <strong>Borrowed</strong> {lotText(lot)} from {from} until {clockAhead(ends, now)}
        </li>
      ))}
      <li>
        <Link to="/market">Market</Link>
      </li>
    </ul>
  );
}
