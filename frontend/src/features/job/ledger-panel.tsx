import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect } from "react";

import { jobLinesQuery } from "@/api/ledger-queries";
import { LedgerList } from "@/components/ledger/ledger-list";
import { live } from "@/live/live";
import { Panel } from "@/ui/layout";

const MOST_SHOWN = 5;

/** Where the job, or the app it belongs to, last took part in an auction or a trade; nothing where it never did. */
export function LedgerPanel({ job }: { job: number }) {
  const { data, refetch } = useQuery(jobLinesQuery(job, MOST_SHOWN));
  useEffect(
    () =>
      live.subscribeAside((message) => {
        if (message.type === "ledger" && message.lines.some(({ jobs }) => jobs.includes(job))) void refetch();
      }),
    [job, refetch],
  );
  if (!data || data.length === 0) return null;
  return (
    <Panel
      title="In auctions and trades"
      flush
      actions={
        <Link to="/ledger" search={{ job }}>
          All of its lines
        </Link>
      }
    >
      <LedgerList lines={data} label="Newest lines of the ledger" />
    </Panel>
  );
}
