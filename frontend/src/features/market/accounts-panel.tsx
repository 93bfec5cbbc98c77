import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { accountsQuery } from "@/api/market-queries";
import type { CreditAccount } from "@/api/schema";
import { amount } from "@/components/format";
import { useNow } from "@/components/now";
import { useSession } from "@/components/session";
import { allowanceText } from "@/features/market/words";
import { Button } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { muted, oneLine, Panel } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";
import styles from "@/features/market/market.module.css";

const AllowanceDialog = onDemand(async () => (await import("@/features/market/credit-dialogs")).AllowanceDialog);
const GrantDialog = onDemand(async () => (await import("@/features/market/credit-dialogs")).GrantDialog);

/** What each virtual cluster has to pay with; operators grant more. */
export function AccountsPanel() {
  const me = useSession();
  const now = useNow();
  const query = useQuery(accountsQuery);
  const [granting, setGranting] = useState<CreditAccount | null>(null);
  const [allowing, setAllowing] = useState<CreditAccount | null>(null);
  return (
    <Panel title="Accounts" flush>
      <DataTable
        label="Accounts"
        rows={query.data}
        rowKey={(account) => account.virtual_cluster}
        query={query}
        empty={
          <EmptyState title="No account of yours">
            Members of a virtual cluster&apos;s tenants see its account.
          </EmptyState>
        }
        columns={[
          {
            header: "Virtual cluster",
            isRowHeader: true,
            sortBy: (account) => account.virtual_cluster,
            cell: (account) => account.virtual_cluster,
          },
          {
            header: "Balance",
            isNumeric: true,
            sortBy: ({ balance }) => balance,
            cell: ({ balance }) => <strong>{amount(balance)}</strong>,
          },
          {
            header: "Granted",
            isNumeric: true,
            sortBy: ({ granted }) => granted,
            cell: ({ granted }) => amount(granted),
          },
          { header: "Earned", isNumeric: true, sortBy: ({ earned }) => earned, cell: ({ earned }) => amount(earned) },
          { header: "Spent", isNumeric: true, sortBy: ({ spent }) => spent, cell: ({ spent }) => amount(spent) },
          {
            header: "Allowance",
            className: oneLine,
            cell: ({ allowance }) => (allowance ? allowanceText(allowance, now) : <span className={muted}>none</span>),
          },
          me.is_operator && {
            header: "Grant",
            isHeaderHidden: true,
            className: styles.actions,
            cell: (account) => (
              <>
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
              </>
            ),
          },
        ]}
      />
      {granting && <GrantDialog account={granting} onClose={() => setGranting(null)} />}
      {allowing && <AllowanceDialog account={allowing} onClose={() => setAllowing(null)} />}
    </Panel>
  );
}
