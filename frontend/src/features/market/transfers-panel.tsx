import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";

import { transfersAddress, transfersQuery } from "@/api/market-queries";
import type { CreditTransfer } from "@/api/schema";
import { FileLinks } from "@/components/file-links";
import { Filter } from "@/components/filter";
import { amount, moment } from "@/components/format";
import styles from "@/features/market/market.module.css";
import { TRANSFER_TEXT } from "@/features/market/words";
import { type Column, DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { muted, oneLine, Panel } from "@/ui/layout";

const COLUMNS: readonly Column<CreditTransfer>[] = [
  { header: "Time", className: oneLine, cell: ({ at }) => moment(at) },
  { header: "What", className: oneLine, cell: ({ kind }) => TRANSFER_TEXT[kind] },
  { header: "From", className: oneLine, cell: ({ from }) => from },
  { header: "To", className: oneLine, cell: ({ to }) => to },
  { header: "Credits", isNumeric: true, cell: ({ credits }) => amount(credits) },
  {
    header: "Why",
    className: styles.lot,
    cell: ({ loan, reason, by }) => (
      <>
        {loan !== null && `Loan ${loan}. `}
        {reason} {by && <span className={muted}>by {by}</span>}
      </>
    ),
  },
];

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
          {transfers.length > 0 && <FileLinks address={transfersAddress(name)} />}
        </>
      }
    >
      <DataTable
        label="Transfers"
        rows={transfers}
        rowKey={({ id }) => id}
        query={query}
        empty={<EmptyState title="No credits have moved yet" />}
        more="Show older transfers"
        columns={COLUMNS}
      />
    </Panel>
  );
}
