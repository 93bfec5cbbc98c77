import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { memo, useMemo, useState } from "react";

import { mapJobsQuery, mapNodesQuery } from "@/api/map-queries";
import { virtualClustersQuery } from "@/api/queries";
import { plantGarden, type Rack, type Tally, tallyOf } from "@/components/gpu-map/garden";
import { GpuMap } from "@/components/gpu-map/gpu-map";
import { Legend } from "@/components/gpu-map/legend";
import type { ColourBy } from "@/components/gpu-map/paint";
import { useSession } from "@/components/session";
import { ElasticityPanel } from "@/features/overview/elasticity-panel";
import { FragmentationPanel } from "@/features/overview/fragmentation-panel";
import { activeCounts, isOwnRow, Queue } from "@/features/overview/queue";
import { Tiles } from "@/features/overview/tiles";
import { UsagePanel } from "@/features/overview/usage-panel";
import { useNewest } from "@/live/live";
import { jobsOf, nodesOf } from "@/live/map-rows";
import { usePacedLiveState } from "@/live/paced";
import type { SeenJob } from "@/live/store";
import { Segments } from "@/ui/choice";
import { EmptyState, ErrorNotice, Notice, Skeleton } from "@/ui/feedback";
import { PageLayout, Panel } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";
import styles from "@/features/overview/overview-page.module.css";

const GpuTable = onDemand(async () => (await import("@/components/gpu-map/gpu-table")).GpuTable);

export function OverviewPage() {
  const nodes = useQuery(mapNodesQuery);
  const jobs = useQuery(mapJobsQuery);
  const state = usePacedLiveState();
  const isOperator = useSession().is_operator;
  const { job, mapJob, node, mapNode } = state;
  const all = useMemo(() => jobsOf({ job, mapJob }), [job, mapJob]);
  const racks = useMemo(() => plantGarden(nodesOf({ node, mapNode }), all), [node, mapNode, all]);
  const tally = useMemo(() => tallyOf(racks), [racks]);
  const tenants = useTenantsAtWork(tally);
  const oldestWait = useMemo(() => oldestQueued(all), [all]);
  const counts = useMemo(() => activeCounts(all), [all]);
  return (
    <PageLayout title="Overview">
      <SlowPolicies />
      <OwnShares />
      <Tiles
        tally={tally}
        jobs={jobs.isPending ? undefined : counts}
        oldestWait={oldestWait}
        seesAll={isOperator}
        loading={nodes.isPending}
      />
      <div className={styles.columns}>
        <MapPanel
          racks={racks}
          tally={tally}
          tenants={tenants}
          loading={nodes.isPending || jobs.isPending}
          error={nodes.error ?? jobs.error}
        />
        <Queue loading={jobs.isPending} />
      </div>
      <UsagePanel tenants={tenants} />
      {isOperator && <FragmentationPanel />}
      {isOperator && <ElasticityPanel />}
    </PageLayout>
  );
}

/** Names the virtual clusters for which a cheap policy decides at present. */
function SlowPolicies() {
  const clusters = useNewest("virtual_cluster", useQuery(virtualClustersQuery).data);
  const slow = clusters.filter(({ overrun }) => overrun).map(({ name }) => name);
  if (slow.length === 0) return null;
  return (
    <Notice>
      {slow.length === 1 ? "The policy" : "Each policy"} of {slow.join(", ")} takes too long; fifo decides meanwhile:
      see <Link to="/virtual-clusters">virtual clusters</Link>.
    </Notice>
  );
}

/** Where a person sees what its tenants get of the virtual clusters that they share with others. */
function OwnShares() {
  const mine = useSession().tenants.map(({ name }) => name);
  const clusters = useNewest("virtual_cluster", useQuery(virtualClustersQuery).data);
  const shared = clusters.filter(
    ({ members, other_members: others }) =>
      members.length + others > 1 && members.some(({ tenant }) => mine.includes(tenant)),
  );
  if (shared.length === 0) return null;
  return (
    <p className={styles.shares}>
      Fair share by virtual cluster:
      {shared.map(({ name }) => (
        <Link key={name} to="/virtual-clusters/$name/fairness" params={{ name }}>
          {name}
        </Link>
      ))}
    </p>
  );
}

function oldestQueued(jobs: Iterable<SeenJob>): string | null {
  let oldest: string | null = null;
  for (const job of jobs) {
    const { state, held, submitted_at } = job;
    // Its owner holds it back, not the cluster; or it is the platform that waits for an input worker.
    if (held || !isOwnRow(job) || state !== "queued") continue;
    if (oldest === null || submitted_at < oldest) oldest = submitted_at;
  }
  return oldest;
}

/** Names of the tenants that hold GPUs; the same array while they are the same. */
function useTenantsAtWork({ byTenant }: Tally): string[] {
  const joined = [...byTenant.keys()].sort().join(" ");
  return useMemo(() => (joined ? joined.split(" ") : []), [joined]);
}

const COLOURS = [
  { value: "tenant", label: "Tenant" },
  { value: "state", label: "State" },
  { value: "job", label: "Job" },
] as const;

interface MapPanelProps {
  racks: Rack[];
  tally: Tally;
  tenants: string[];
  loading: boolean;
  error: unknown;
}

const MapPanel = memo(function MapPanel({ racks, tally, tenants, loading, error }: MapPanelProps) {
  const [colourBy, setColourBy] = useState<ColourBy>("tenant");
  const [shape, setShape] = useState<"map" | "table">("map");
  const controls = (
    <>
      {shape === "map" && <Segments label="Colour by" value={colourBy} options={COLOURS} onChange={setColourBy} />}
      <Segments
        label="Show as"
        value={shape}
        options={[
          { value: "map", label: "Map" },
          { value: "table", label: "Table" },
        ]}
        onChange={setShape}
      />
    </>
  );
  const content = () => {
    if (error && racks.length === 0) return <ErrorNotice error={error} />;
    if (loading) return <Skeleton height="16rem" />;
    if (racks.length === 0) {
      return (
        <EmptyState title="No nodes yet">
          An operator adds nodes on the Nodes page. A node appears here when its agent connects.
        </EmptyState>
      );
    }
    if (shape === "table") return <GpuTable racks={racks} />;
    return (
      <>
        <GpuMap racks={racks} colourBy={colourBy} tenants={tenants} />
        <Legend tally={tally} colourBy={colourBy} tenants={tenants} />
      </>
    );
  };
  return (
    <Panel title="GPUs by rack and node" actions={controls}>
      {content()}
    </Panel>
  );
});
