import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useEffect, useMemo, useState } from "react";

import { ledgerAddress, type LedgerFilters, ledgerQuery } from "@/api/ledger-queries";
import { tenantsQuery, virtualClustersQuery } from "@/api/queries";
import type { Line as LedgerLine } from "@/api/schema";
import { FileLinks } from "@/components/file-links";
import { Filter, TypedSearch } from "@/components/filter";
import { LedgerList } from "@/components/ledger/ledger-list";
import { KIND_TEXT, newestFirst } from "@/components/ledger/words";
import styles from "@/features/ledger/ledger-page.module.css";
import { live } from "@/live/live";
import { Button } from "@/ui/button";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { PageLayout, Panel, Row } from "@/ui/layout";
import { ShowMore } from "@/ui/show-more";

const route = getRouteApi("/ledger");
const KINDS = Object.entries(KIND_TEXT).map(([value, label]) => ({ value, label }));
const OTHER_VIEWS = [
  { value: "market", label: "Market" },
  { value: "spare", label: "Spare GPUs" },
];

/** Everything that was bid, won, paid, traded and lent, as it happens. */
export function LedgerPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useInfiniteQuery(ledgerQuery(search));
  const clusters = useQuery(virtualClustersQuery).data ?? [];
  const tenants = useQuery(tenantsQuery).data ?? [];
  const heard = useHeardLines();
  const lines = useMemo(
    () => newestFirst(query.data?.pages.flatMap((page) => page.results) ?? [], heard, (line) => matches(search, line)),
    [query.data, heard, search],
  );
  const choose = (changed: Partial<typeof search>) =>
    void navigate({ search: (now) => ({ ...now, ...changed }), replace: true });
  const isFiltered = Object.values(search).some(Boolean);
  const views = clusters.map(({ name }) => name);
  const parties = [...new Set([...tenants.map(({ name }) => name), ...views])];
  return (
    <PageLayout
      title="Ledger"
      lead="Bids, auctions, payments, trades and loans. Lines are only added, and each round can be decided again."
      actions={lines.length > 0 && <FileLinks address={ledgerAddress(search)} />}
    >
      <Row>
        <Filter label="Kind" value={search.kind} options={KINDS} onChange={(kind) => choose({ kind })} />
        <Filter
          label="Virtual cluster"
          value={search.view}
          options={[...OTHER_VIEWS, ...views]}
          onChange={(view) => choose({ view })}
        />
        <Filter label="Party" value={search.party} options={parties} onChange={(party) => choose({ party })} />
        <div className={styles.number}>
          <TypedSearch
            label="Job number"
            value={String(search.job ?? "")}
            onChange={(typed) => choose({ job: wholeOf(typed) })}
          />
        </div>
        <div className={styles.number}>
          <TypedSearch
            label="Round number"
            value={String(search.round ?? "")}
            onChange={(typed) => choose({ round: wholeOf(typed) })}
          />
        </div>
      </Row>
      <Panel flush>
        {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
        {query.isPending ? (
          <SkeletonLines count={8} />
        ) : lines.length > 0 ? (
          <LedgerList lines={lines} label="Ledger" />
        ) : (
          !query.isError && (
            <EmptyState
              title={isFiltered ? "No line matches" : "Nothing yet"}
              action={isFiltered && <Button onClick={() => void navigate({ search: {} })}>Clear the filters</Button>}
            >
              {!isFiltered &&
                "The policies themis and gandiva_fair record bids, wins and trades here; the market records loans."}
            </EmptyState>
          )
        )}
        <ShowMore query={query}>Show older lines</ShowMore>
      </Panel>
    </PageLayout>
  );
}

export function matches({ kind, view, party, job, round }: LedgerFilters, line: LedgerLine): boolean {
  return (
    (kind === undefined || line.kind === kind) &&
    (view === undefined || line.view === view) &&
    (party === undefined || line.party === party || line.counterparty === party) &&
    (job === undefined || line.jobs.includes(job)) &&
    (round === undefined || line.round_number === round)
  );
}

/** A number that was typed; undefined for anything else. */
export function wholeOf(typed: string): number | undefined {
  return /^\d{1,15}$/.test(typed.trim()) ? Number(typed) : undefined;
}

/** What is kept of lines that come on without end; older ones are in the list that was fetched. */
const MOST_HEARD = 500;

/** Lines that were written since the page was opened. */
function useHeardLines(): readonly LedgerLine[] {
  const [lines, setLines] = useState<readonly LedgerLine[]>([]);
  useEffect(
    () =>
      live.subscribeAside((message) => {
        if (message.type === "ledger") setLines((known) => [...known, ...message.lines].slice(-MOST_HEARD));
      }),
    [],
  );
  return lines;
}
