import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { accountsQuery } from "@/api/market-queries";
import type { Account } from "@/api/market-types";
import { amount } from "@/components/lot";
import { useNow } from "@/components/now";
import { useSession } from "@/components/session";
import { AllowanceDialog, GrantDialog } from "@/features/market/credit-dialogs";
import { allowanceText } from "@/features/market/words";
import { Button } from "@/ui/button";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { muted, numeric, oneLine, Panel, TableFrame } from "@/ui/layout";
import styles from "@/features/market/market.module.css";

/** What each virtual cluster has to pay with; operators grant more. */
export function AccountsPanel() {
  const me = useSession();
  const now = useNow();
  const query = useQuery(accountsQuery);
  const [granting, setGranting] = useState<Account | null>(null);
  const [allowing, setAllowing] = useState<Account | null>(null);
  return (
    <Panel title="Accounts" flush>
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines />}
      {query.data?.length === 0 && (
        <EmptyState title="No account of yours">
          Members of a virtual cluster&apos;s tenants see its account.
        </EmptyState>
      )}
      {query.data && query.data.length > 0 && (
        <TableFrame label="Accounts">
          <thead>
            <tr>
              <th>Virtual cluster</th>
              <th className={numeric}>Balance</th>
              <th className={numeric}>Granted</th>
              <th className={numeric}>Earned</th>
              <th className={numeric}>Spent</th>
              <th>Allowance</th>
              {me.is_operator && (
                <th>
                  <span className="visually-hidden">Grant</span>
                </th>
              )}
            </tr>
          </thead>
          <tbody>
            {query.data.map((account) => (
              <tr key={account.virtual_cluster}>
                <th scope="row">{account.virtual_cluster}</th>
                <td className={numeric}>
                  <strong>{amount(account.balance)}</strong>
                </td>
                <td className={numeric}>{amount(account.granted)}</td>
                <td className={numeric}>{amount(account.earned)}</td>
                <td className={numeric}>{amount(account.spent)}</td>
                <td className={oneLine}>
                  {account.allowance ? allowanceText(account.allowance, now) : <span className={muted}>none</span>}
                </td>
                {me.is_operator && (
                  <td className={styles.actions}>
                    <Button
                      look="quiet"
                      aria-label={`Allowance of ${account.virtual_cluster}`}
                      onClick={() => setAllowing(account)}
                    >
                      Allowance
                    </Button>
                    <Button aria-label={`Grant to ${account.virtual_cluster}`} onClick={() => setGranting(account)}>
                      Grant
                    </Button>
                  </td>
                )}
              </tr>
            ))}
          </tbody>
        </TableFrame>
      )}
      {granting && <GrantDialog account={granting} onClose={() => setGranting(null)} />}
      {allowing && <AllowanceDialog account={allowing} onClose={() => setAllowing(null)} />}
    </Panel>
  );
}
