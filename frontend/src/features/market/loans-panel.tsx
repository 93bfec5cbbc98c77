import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { endedLoansQuery, endLoan, loansQuery } from "@/api/market-queries";
import type { Loan } from "@/api/market-types";
import { clockAhead, duration, moment } from "@/components/format";
import { amount, lotText } from "@/components/lot";
import { useNow } from "@/components/now";
import { useSession } from "@/components/session";
import { ShowMore } from "@/components/show-more";
import { Tag } from "@/components/state-badge";
import { PartBar } from "@/components/use-bar";
import { useDeed } from "@/features/market/use-deed";
import { partLeft } from "@/features/market/words";
import { Button } from "@/ui/button";
import { Segments } from "@/ui/choice";
import { Confirm } from "@/ui/dialog";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { muted, numeric, oneLine, Panel, TableFrame } from "@/ui/layout";
import styles from "@/features/market/market.module.css";

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
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines />}
      {query.data?.length === 0 && <EmptyState title="Nothing is on loan">Everybody has what is their own.</EmptyState>}
      {query.data && query.data.length > 0 && <LoanTable loans={query.data} onEnd={setEnding} />}
      {ending && <EndLoan loan={ending} onClose={() => setEnding(null)} />}
    </>
  );
}

function Ended() {
  const query = useInfiniteQuery(endedLoansQuery);
  const loans = query.data?.pages.flatMap((page) => page.results) ?? [];
  return (
    <>
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines />}
      {query.data && loans.length === 0 && <EmptyState title="No loan has ended yet" />}
      {loans.length > 0 && <LoanTable loans={loans} />}
      <ShowMore query={query}>Show older loans</ShowMore>
    </>
  );
}

function LoanTable({ loans, onEnd }: { loans: readonly Loan[]; onEnd?: (loan: Loan) => void }) {
  return (
    <TableFrame label="Loans">
      <thead>
        <tr>
          <th>From</th>
          <th>To</th>
          <th>What</th>
          <th>When</th>
          <th className={numeric}>Paid</th>
          {onEnd && (
            <th>
              <span className="visually-hidden">End</span>
            </th>
          )}
        </tr>
      </thead>
      <tbody>
        {loans.map((loan) => (
          <tr key={loan.id}>
            <th scope="row" className={oneLine}>
              {loan.lender}
            </th>
            <td className={oneLine}>{loan.borrower}</td>
            <td className={styles.lot}>
              {lotText(loan.lot)}{" "}
              {loan.in_return && <span className={muted}>for {lotText(loan.in_return)} in return</span>}
            </td>
            <td className={oneLine}>
              <Time loan={loan} />
            </td>
            <td className={numeric}>
              {amount(loan.paid)} {loan.refunded > 0 && <span className={muted}>{amount(loan.refunded)} refunded</span>}
            </td>
            {onEnd && (
              <td className={styles.actions}>
                {loan.may_end && (
                  <Button
                    look="quiet"
                    aria-label={`End the loan of ${lotText(loan.lot)} from ${loan.lender} to ${loan.borrower}`}
                    onClick={() => onEnd(loan)}
                  >
                    End
                  </Button>
                )}
              </td>
            )}
          </tr>
        ))}
      </tbody>
    </TableFrame>
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
        `${loan.lender} has it again at once; jobs of ${loan.borrower} on it run on as opportunistic ones. ` +
        (me.is_operator ? "The rest of what was paid is refunded." : "Nothing of what was paid is refunded.")
      }
      action="End it"
      busy={end.isPending}
      onConfirm={() => end.mutate(undefined)}
    >
      {end.error && <ErrorNotice error={end.error} />}
    </Confirm>
  );
}
