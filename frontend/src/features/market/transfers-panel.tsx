import { useInfiniteQuery } from "@tanstack/react-query";
import { Download } from "lucide-react";
import { useState } from "react";

import { transfersAddress, transfersQuery } from "@/api/market-queries";
import { Filter } from "@/components/filter";
import { moment } from "@/components/format";
import { amount } from "@/components/lot";
import { ShowMore } from "@/components/show-more";
import { TRANSFER_TEXT } from "@/features/market/words";
import { buttonClass } from "@/ui/button";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { muted, numeric, oneLine, Panel, TableFrame } from "@/ui/layout";
import styles from "@/features/market/market.module.css";

/** Every movement of credits, from whom to whom; the newest first. */
export function TransfersPanel({ names }: { names: readonly string[] }) {
  const [name, setName] = useState("");
  const query = useInfiniteQuery(transfersQuery(name));
  const transfers = query.data?.pages.flatMap((page) => page.results) ?? [];
  return (
    <Panel
      title="Transfers"
      flush
      actions={
        <>
          <Filter label="Account" value={name} options={names} onChange={setName} />
          {transfers.length > 0 && (
            <a className={buttonClass()} href={transfersAddress(name)} download>
              <Download size={15} aria-hidden />
              CSV
            </a>
          )}
        </>
      }
    >
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines />}
      {query.data && transfers.length === 0 && <EmptyState title="No credits have moved yet" />}
      {transfers.length > 0 && (
        <TableFrame label="Transfers">
          <thead>
            <tr>
              <th>Time</th>
              <th>What</th>
              <th>From</th>
              <th>To</th>
              <th className={numeric}>Credits</th>
              <th>Why</th>
            </tr>
          </thead>
          <tbody>
            {transfers.map((transfer) => (
              <tr key={transfer.id}>
                <td className={oneLine}>{moment(transfer.at)}</td>
                <td className={oneLine}>{TRANSFER_TEXT[transfer.kind]}</td>
                <td className={oneLine}>{transfer.from}</td>
                <td className={oneLine}>{transfer.to}</td>
                <td className={numeric}>{amount(transfer.credits)}</td>
                <td className={styles.lot}>
                  {transfer.loan !== null && `Loan ${transfer.loan}. `}
                  {transfer.reason} {transfer.by && <span className={muted}>by {transfer.by}</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </TableFrame>
      )}
      <ShowMore query={query}>Show older transfers</ShowMore>
    </Panel>
  );
}
