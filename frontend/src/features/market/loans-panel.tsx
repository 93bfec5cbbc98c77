import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { endedLoansQuery, endLoan, loansQuery } from "@/api/market-queries";
import type { Loan } from "@/api/schema";
import { amount, clockAhead, duration, lotText, moment } from "@/components/format";
import { useNow } from "@/components/now";
import { useSession } from "@/components/session";
import { Tag } from "@/components/state-badge";
import { PartBar } from "@/components/use-bar";
import styles from "@/features/market/market.module.css";
import { useDeed } from "@/features/market/use-deed";
import { partLeft } from "@/features/market/words";
import { Button } from "@/ui/button";
import { Segments } from "@/ui/choice";
import { DataTable, type DataTableProps } from "@/ui/data-table";
import { Confirm } from "@/ui/confirm";
import { EmptyState, ErrorNotice } from "@/ui/feedback";
import { muted, oneLine, Panel } from "@/ui/layout";

const WHICH = [
  { value: "now", label: "Now and later" },
  { value: "ended", label: "Ended" },
] as const;
type Which = (typeof WHICH)[number]["value"];

/** Who has what of whom, and for how long still. */
export function LoansPanel() {
  const [which, setWhich] = useState<Which>("now");
  return (
    <Panel
      title="Loans"
      flush
      actions={<Segments<Which> label="Which loans" value={which} options={WHICH} onChange={setWhich} />}
    >
      {which === "now" ? <Current /> : <Ended />}
    </Panel>
  );
}

function Current() {
  const query = useQuery(loansQuery);
  const [ending, setEnding] = useState<Loan | null>(null);
  return (
    <>
      <LoanTable
        loans={query.data}
        query={query}
        empty={<EmptyState title="Nothing is on loan">Every virtual cluster has its own GPUs.</EmptyState>}
        onEnd={setEnding}
      />
      {ending && <EndLoan loan={ending} onClose={() => setEnding(null)} />}
    </>
  );
}

function Ended() {
  const query = useInfiniteQuery(endedLoansQuery);
  const loans = query.data?.pages.flatMap((page) => page.results) ?? [];
  return (
    <LoanTable
      loans={loans}
      query={query}
      empty={<EmptyState title="No loan has ended yet" />}
      more="Show older loans"
    />
  );
}

interface LoanTableProps extends Pick<DataTableProps<Loan>, "query" | "empty" | "more"> {
  loans: readonly Loan[] | undefined;
  onEnd?: (loan: Loan) => void;
}

function LoanTable({ loans, onEnd, ...rest }: LoanTableProps) {
  return (
    <DataTable
      label="Loans"
      rows={loans}
      rowKey={({ id }) => id}
      columns={[
        { header: "From", isRowHeader: true, className: oneLine, cell: ({ lender }) => lender },
        { header: "To", className: oneLine, cell: ({ borrower }) => borrower },
        {
          header: "What",
          className: styles.lot,
          cell: ({ lot, in_return: given }) => (
            <>
              {lotText(lot)} {given && <span className={muted}>for {lotText(given)} in return</span>}
            </>
          ),
        },
        { header: "When", className: oneLine, cell: (loan) => <Time loan={loan} /> },
        {
          header: "Paid",
          isNumeric: true,
          cell: ({ paid, refunded }) => (
            <>
              {amount(paid)} {refunded > 0 && <span className={muted}>{amount(refunded)} refunded</span>}
            </>
          ),
        },
        onEnd && {
          header: "End",
          isHeaderHidden: true,
          className: styles.actions,
          cell: (loan) =>
            loan.may_end && (
              <Button
                look="quiet"
                aria-label={`End the loan of ${lotText(loan.lot)} from ${loan.lender} to ${loan.borrower}`}
                onClick={() => onEnd(loan)}
              >
                End
              </Button>
            ),
        },
      ]}
      {...rest}
    />
  );
}

function Time({ loan }: { loan: Loan }) {
  const now = useNow();
  if (loan.state === "ended") {
    return (
      <>
        {moment(loan.starts_at)} to {moment(loan.ends_at)}{" "}
        {loan.ended_by && <span className={muted}>ended by {loan.ended_by}</span>}
      </>
    );
  }
  if (Date.parse(loan.starts_at) > now) {
    return (
      <>
        <Tag>coming</Tag> {clockAhead(loan.starts_at, now)} until {clockAhead(loan.ends_at, now)}
      </>
    );
  }
  return (
    <span className={styles.left}>
      <PartBar part={partLeft(loan, now)} />
      {duration((Date.parse(loan.ends_at) - now) / 1000)} left, until {clockAhead(loan.ends_at, now)}
    </span>
  );
}

function EndLoan({ loan, onClose }: { loan: Loan; onClose: () => void }) {
  const me = useSession();
  const end = useDeed(
    () => endLoan(loan.id),
    () => `${loan.lender} has ${lotText(loan.lot)} again.`,
    onClose,
  );
  return (
    <Confirm
      open
      onClose={onClose}
      title={`End the loan of ${lotText(loan.lot)}?`}
      description={
        `${loan.lender} gets it back at once; jobs of ${loan.borrower} on it continue as opportunistic jobs. ` +
        (me.is_operator ? "The rest of the payment is refunded." : "The payment is not refunded.")
      }
      action="End it"
      busy={end.isPending}
      onConfirm={() => end.mutate(undefined)}
    >
      {end.error && <ErrorNotice error={end.error} />}
    </Confirm>
  );
}
