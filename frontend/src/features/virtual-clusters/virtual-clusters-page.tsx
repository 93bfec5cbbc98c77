import { useQuery } from "@tanstack/react-query";
import { Link, useRouterState } from "@tanstack/react-router";
import { HelpCircle, Pencil, Plus } from "lucide-react";
import { type ReactNode, useEffect, useMemo, useState } from "react";

import { cellsQuery } from "@/api/cell-queries";
import { gpuModelsQuery, virtualClustersQuery } from "@/api/queries";
import type { VirtualCluster } from "@/api/schema";
import { counted, duration } from "@/components/format";
import { useSession } from "@/components/session";
import {
  BarsKey,
  ClusterCells,
  GuaranteeBars,
  leastRun,
  lending,
  LoanList,
  PreemptionsOf,
} from "@/features/virtual-clusters/cluster-summary";
import { EnlargeWhatIf } from "@/features/virtual-clusters/enlarge-what-if";
import { inWords } from "@/features/virtual-clusters/plugin-choice";
import { OverrunNotice, SpareSettings } from "@/features/virtual-clusters/spare-settings";
import { SHARING, VirtualClusterForm } from "@/features/virtual-clusters/virtual-cluster-form";
import styles from "@/features/virtual-clusters/virtual-clusters.module.css";
import { useNewest } from "@/live/live";
import { Button, IconButton } from "@/ui/button";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { Facts, PageLayout, Panel } from "@/ui/layout";

export function VirtualClustersPage() {
  const me = useSession();
  const query = useQuery(virtualClustersQuery);
  const models = useQuery(gpuModelsQuery);
  const clusters = useNewest("virtual_cluster", query.data);
  const totals = useMemo(() => new Map((models.data ?? []).map(({ name, gpus }) => [name, gpus])), [models.data]);
  const divided = useQuery(cellsQuery).data?.gpu_models ?? [];
  const byCount = [...totals.keys()].filter((model) => !divided.includes(model));
  const [asking, setAsking] = useState<VirtualCluster | null>(null);
  const [editing, setEditing] = useState<VirtualCluster | "new" | null>(null);
  return (
    <PageLayout
      title="Virtual clusters"
      lead="The guarantee and the use of each virtual cluster."
      actions={
        me.is_operator && (
          <Button look="primary" icon={<Plus size={15} aria-hidden />} onClick={() => setEditing("new")}>
            New virtual cluster
          </Button>
        )
      }
    >
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending ? (
        <SkeletonLines count={6} />
      ) : clusters.length === 0 ? (
        <EmptyState title="No virtual clusters yet">
          Each job runs in a virtual cluster. An operator creates the first one.
        </EmptyState>
      ) : (
        <>
          <BarsKey />
          <div className={styles.cards}>
            {clusters.map((cluster) => (
              <Card
                key={cluster.name}
                cluster={cluster}
                totals={totals}
                onEdit={me.is_operator ? () => setEditing(cluster) : undefined}
                onAsk={me.is_operator ? () => setAsking(cluster) : undefined}
              />
            ))}
          </div>
        </>
      )}
      <SpareSettings />
      {asking && <EnlargeWhatIf cluster={asking} models={byCount} onClose={() => setAsking(null)} />}
      {editing && <VirtualClusterForm cluster={editing === "new" ? null : editing} onClose={() => setEditing(null)} />}
    </PageLayout>
  );
}

interface CardProps {
  cluster: VirtualCluster;
  totals: ReadonlyMap<string, number>;
  onEdit: (() => void) | undefined;
  onAsk: (() => void) | undefined;
}

function Card({ cluster, totals, onEdit, onAsk }: CardProps) {
  const isWanted = useRouterState({ select: ({ location }) => location.hash }) === cluster.name;
  useEffect(() => {
    if (!isWanted) return;
    // After the new page was scrolled to its top.
    const frame = requestAnimationFrame(() =>
      document.getElementById(cluster.name)?.scrollIntoView({ block: "center" }),
    );
    return () => cancelAnimationFrame(frame);
  }, [isWanted, cluster.name]);
  return (
    <Panel
      id={cluster.name}
      className={isWanted ? styles.wanted : undefined}
      title={cluster.title ? `${cluster.title} (${cluster.name})` : cluster.name}
      actions={
        <>
          {onAsk && (
            <IconButton label={`What if ${cluster.name} had more`} icon={<HelpCircle size={15} />} onClick={onAsk} />
          )}
          {onEdit && <IconButton label={`Edit ${cluster.name}`} icon={<Pencil size={15} />} onClick={onEdit} />}
        </>
      }
    >
      <div className={styles.card}>
        {cluster.overrun && <OverrunNotice policy={cluster.policy_plugin.name} overrun={cluster.overrun} />}
        <GuaranteeBars cluster={cluster} totals={totals} />
        <ClusterCells cluster={cluster} />
        <LoanList cluster={cluster} />
        <Facts
          facts={[
            ["Jobs", <JobCounts key="jobs" cluster={cluster} />],
            [
              "Waiting",
              <Link key="anomalies" to="/virtual-clusters/$name/anomalies" params={{ name: cluster.name }}>
                against a private cluster
              </Link>,
            ],
            [
              "Fairness",
              <Link key="fairness" to="/virtual-clusters/$name/fairness" params={{ name: cluster.name }}>
                by tenant
              </Link>,
            ],
            ["Policy", inWords(cluster.policy_plugin)],
            ...(cluster.has_targets ? [targets(cluster.name)] : []),
            ["Placer", inWords(cluster.placer_plugin)],
            ["Default time limit", duration(cluster.default_time_limit_seconds)],
            ["Sharing of GPUs", SHARING[cluster.sharing]],
            ...(cluster.overcommit === "never"
              ? []
              : [["Lending of unused CPUs and memory", lending(cluster)] as const]),
            ["Minimum run time before preemption", leastRun(cluster)],
            ["Preempted", <PreemptionsOf key="preemptions" name={cluster.name} />],
          ]}
        />
        <div>
          <p className={styles.weight}>
            {counted(cluster.members.length + cluster.other_members, "member")}, with weight
          </p>
          <ul className={styles.members}>
            {cluster.members.map(({ tenant, weight }) => (
              <li key={tenant}>
                {tenant} <span className={styles.weight}>{weight}</span>
              </li>
            ))}
            {cluster.other_members > 0 && (
              <li className={styles.weight}>
                {cluster.members.length > 0 ? "and " : ""}
                {counted(cluster.other_members, "other tenant")}
              </li>
            )}
          </ul>
        </div>
      </div>
    </Panel>
  );
}

/** They lead to the jobs; of virtual clusters of others one may only know how many. */
function JobCounts({ cluster }: { cluster: VirtualCluster }) {
  const me = useSession();
  const says = `${cluster.running} running, ${cluster.queued} queued`;
  const isOwn = cluster.members.some(({ tenant }) => me.tenants.some(({ name }) => name === tenant));
  if (!me.is_operator && !isOwn) return <>{says}</>;
  return (
    <Link to="/jobs" search={{ vc: cluster.name, state: "queued,running" }}>
      {says}
    </Link>
  );
}

function targets(name: string): readonly [string, ReactNode] {
  return [
    "Targets",
    <Link key="targets" to="/virtual-clusters/$name/targets" params={{ name }}>
      by GPU model
    </Link>,
  ];
}
