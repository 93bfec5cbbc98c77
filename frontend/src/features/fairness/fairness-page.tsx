import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { fairnessQuery } from "@/api/ledger-queries";
import type { Fairness } from "@/api/schema";
import { virtualClustersQuery } from "@/api/queries";
import { ago, counted, duration } from "@/components/format";
import { useNow } from "@/components/now";
import { HistoryPanel } from "@/features/fairness/history-panel";
import { TenantTable } from "@/features/fairness/tenant-table";
import { ViolationsPanel } from "@/features/fairness/violations-panel";
import { EmptyState, ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { muted, PageLayout, Panel } from "@/ui/layout";
import { Key } from "@/ui/key";
import styles from "@/features/fairness/fairness.module.css";

const route = getRouteApi("/virtual-clusters/$name/fairness");

/** What each tenant of a virtual cluster is entitled to, what it gets, and whether it would be better off alone. */
export function FairnessPage() {
  const { name } = route.useParams();
  const query = useQuery(fairnessQuery(name));
  const policy = useQuery(virtualClustersQuery).data?.find((cluster) => cluster.name === name)?.policy_plugin.name;
  const now = useNow();
  const fairness = query.data;
  return (
    <PageLayout
      title={`${name}: fairness`}
      lead={
        <>
          {policy && <span>Policy {policy}</span>}
          {fairness?.at && <span>as of {ago(fairness.at, now)}</span>}
          <Link to="/ledger" search={{ view: name }}>
            Its ledger
          </Link>
          <Link to="/virtual-clusters">All virtual clusters</Link>
        </>
      }
    >
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines count={8} />}
      {fairness?.tenants.length === 0 && (
        <EmptyState title="No figures yet">
          {fairness.at
            ? "No tenant is a member of it."
            : "Fairness is computed after each round. No round has ended yet, or no job was submitted."}
        </EmptyState>
      )}
      {fairness && fairness.tenants.length > 0 && <Known name={name} fairness={fairness} />}
    </PageLayout>
  );
}

function Known({ name, fairness }: { name: string; fairness: Fairness }) {
  const open = fairness.open_violations;
  const hasTiers = fairness.tenants.some(({ tier }) => tier !== null);
  return (
    <>
      {open > 0 && (
        <Notice tone="failed">
          Some tenants are worse off than in a private cluster: {counted(open, "open violation")} of the sharing
          incentive, listed below.
        </Notice>
      )}
      <Panel title="Tenants" flush>
        <TenantTable tenants={fairness.tenants} />
      </Panel>
      <Key className={styles.key} aria-label="Bars">
        <li>
          <span className={styles.received} /> GPUs received now
        </li>
        <li>
          <span className={styles.entitled} /> entitled to
        </li>
        <li className={muted}>
          Rho: time to completion here, relative to an even part of the cluster alone. Above 1 is later.
        </li>
        <li className={muted}>
          Envy, and speed compared with a private cluster: over the last {duration(fairness.window_seconds)}, in speed,
          not only in GPUs.
        </li>
        <li className={muted}>
          Fraction: GPU time of guaranteed jobs relative to their demand over the last{" "}
          {duration(fairness.fraction_seconds)}, up to their own sizes.
          {hasTiers && " The policy's parameters list premium and basic tenants; all others are standard."}
        </li>
      </Key>
      <HistoryPanel name={name} tenants={fairness.tenants.map(({ tenant }) => tenant)} />
      <ViolationsPanel name={name} />
    </>
  );
}
