import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { HelpCircle, ShieldAlert } from "lucide-react";
import { useMemo } from "react";

import { eventsQuery, jobsOnNodeQuery, nodeQuery } from "@/api/queries";
import type { Job, Node } from "@/api/schema";
import { EventTable } from "@/components/event-table";
import { bytes } from "@/components/format";
import { type Bed, bedOf, holdersByGpu, STATE_TEXT, tallyOf } from "@/components/gpu-map/garden";
import { GpuMap } from "@/components/gpu-map/gpu-map";
import { Legend } from "@/components/gpu-map/legend";
import { NodeMaintenanceNotice } from "@/components/maintenance-notice";
import { NodeMetricsPanel } from "@/components/metrics/metrics-panel";
import { useSession } from "@/components/session";
import { Badge, jobLook, nodeLook } from "@/components/state-badge";
import { useWhatIf, WhatIfAnswer } from "@/components/what-if";
import { HealthHistory, HealthPanel, LoanNotice, WithdrawnNotice } from "@/features/nodes/health-panel";
import {
  gpusOfNode,
  isolationText,
  isolationWarning,
  limitsText,
  partsText,
  storageText,
} from "@/features/nodes/words";
import { NodeActions } from "@/features/nodes/node-actions";
import styles from "@/features/nodes/nodes.module.css";
import { useLiveState, useNewestOne } from "@/live/live";
import { Button } from "@/ui/button";
import { type Column, DataTable } from "@/ui/data-table";
import { EmptyState, ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { Facts, muted, oneLine, PageLayout, Panel, Stack } from "@/ui/layout";

const route = getRouteApi("/nodes/$name");
const RECENT_EVENTS = 20;

export function NodePage() {
  const { name } = route.useParams();
  const me = useSession();
  const query = useQuery(nodeQuery(name));
  const node = useNewestOne("node", query.data);
  if (!node) {
    return (
      <PageLayout title={name}>
        {query.isError ? (
          <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
        ) : (
          <SkeletonLines count={8} />
        )}
      </PageLayout>
    );
  }
  return (
    <PageLayout
      title={node.name}
      lead={
        <>
          <Badge look={nodeLook(node)} />
          <span>
            {node.rack} · {gpusOfNode(node)}
          </span>
        </>
      }
      actions={me.is_operator && <NodeActions node={node} />}
    >
      <LoanNotice node={node} />
      <NodeMaintenanceNotice node={node} />
      <WithdrawnNotice node={node} />
      <IsolationNotice node={node} />
      <Stack>
        <NodeView node={node} />
        <NodeMetricsPanel name={node.name} />
      </Stack>
    </PageLayout>
  );
}

function NodeView({ node }: { node: Node }) {
  useQuery(jobsOnNodeQuery(node.name));
  const { job: jobs } = useLiveState();
  const bed = useMemo(() => bedOf(node, holdersByGpu(jobs.values())), [node, jobs]);
  const racks = useMemo(() => [{ name: node.rack, beds: [bed] }], [node.rack, bed]);
  const tally = useMemo(() => tallyOf(racks), [racks]);
  const tenants = useMemo(() => [...tally.byTenant.keys()].sort(), [tally]);
  const me = useSession();
  return (
    <div className={styles.columns}>
      <Stack>
        <Panel title="GPUs">
          <GpuMap racks={racks} colourBy="job" tenants={tenants} preferredHeight={260} />
          <Legend tally={tally} colourBy="job" tenants={tenants} />
        </Panel>
        <Panel title="Facts">
          <Facts
            facts={[
              ["Address", node.address || "–"],
              ["Agent", node.agent_version || "–"],
              ["CPUs", node.cpus || "–"],
              ["Memory", node.memory_bytes > 0 ? bytes(node.memory_bytes) : "–"],
              ...(storageText(node) ? [["Storage", storageText(node)] as const] : []),
              ["Jobs run", isolationText(node)],
              ["Limited", limitsText(node)],
              ["Parts of GPUs", partsText(node)],
            ]}
          />
        </Panel>
      </Stack>
      <Stack>
        <HealthPanel node={node} />
        <GpuList bed={bed} />
        {me.is_operator && <DrainWhatIf node={node} />}
        <HealthHistory name={node.name} />
        <NodeEvents name={node.name} />
      </Stack>
    </div>
  );
}

/** Where something is left open that people would not expect. */
function IsolationNotice({ node }: { node: Node }) {
  const text = isolationWarning(node);
  return (
    text && (
      <Notice tone="failed" icon={<ShieldAlert size={16} aria-hidden />}>
        {text}
      </Notice>
    )
  );
}

type NodeBed = Bed<Job, Node>;

const GPU_COLUMNS: readonly Column<NodeBed["plots"][number]>[] = [
  { header: "GPU", isRowHeader: true, cell: ({ gpu }) => gpu.index },
  {
    header: "Place",
    className: `${oneLine} ${muted}`,
    cell: ({ gpu }) => `socket ${gpu.socket}, switch ${gpu.switch}`,
  },
  { header: "Memory", className: oneLine, cell: ({ gpu }) => bytes(gpu.memory_bytes) },
  {
    header: "State",
    cell: ({ gpu, job, sharers, state }) => (
      <>
        {job ? <Badge look={jobLook(job)} /> : STATE_TEXT[state]}
        {sharers.length > 0 && <p className={muted}>shared, {Math.round(100 * gpu.in_use)} %</p>}
        {gpu.problem && <p className={styles.broken}>{gpu.problem}</p>}
      </>
    ),
  },
  {
    header: "Job",
    className: oneLine,
    cell: ({ job, sharers, successor }) => (
      <>
        {sharers.length === 0 && job && <JobLink job={job} />}
        {sharers.map((sharer) => (
          <p key={sharer.job.id}>
            <JobLink job={sharer.job} /> <span className={muted}>{Number(sharer.part.toFixed(3))}</span>
          </p>
        ))}
        {successor && (
          <p className={muted}>
            next: <JobLink job={successor} />
          </p>
        )}
      </>
    ),
  },
];

function JobLink({ job: { id, name } }: { job: { id: number; name: string } }) {
  return (
    <Link to="/jobs/$id" params={{ id: String(id) }}>
      {name} #{id}
    </Link>
  );
}

function GpuList({ bed }: { bed: NodeBed }) {
  return (
    <Panel title="GPU by GPU" flush>
      <DataTable
        label="GPUs of the node"
        rows={bed.plots}
        rowKey={({ gpu }) => gpu.id}
        columns={GPU_COLUMNS}
        empty={
          <EmptyState title="No GPUs reported">GPUs appear when the node agent reports for the first time.</EmptyState>
        }
      />
    </Panel>
  );
}

function NodeEvents({ name }: { name: string }) {
  const query = useInfiniteQuery(eventsQuery({ node: name }));
  const { isPending, isError, error, refetch } = query;
  return (
    <Panel title="Recent events" flush>
      <EventTable
        events={query.data?.pages[0]?.results.slice(0, RECENT_EVENTS)}
        // Not its pages: older ones are under Events.
        query={{ isPending, isError, error, refetch }}
        empty={<EmptyState title="No events" />}
      />
    </Panel>
  );
}

/** Who would wait if the node were drained, or start sooner if it took work again. For operators. */
function DrainWhatIf({ node }: { node: Node }) {
  const ask = useWhatIf();
  const cluster = node.cordoned ? { add_back: [node.name] } : { drain: [node.name] };
  return (
    <Panel
      title="What if"
      actions={
        <Button
          icon={<HelpCircle size={14} aria-hidden />}
          busy={ask.isPending}
          onClick={() => ask.mutate({ cluster })}
        >
          {node.cordoned ? "If it were resumed?" : "If it were drained?"}
        </Button>
      }
    >
      <Stack>
        {ask.error && <ErrorNotice error={ask.error} />}
        {ask.data ? (
          <WhatIfAnswer answer={ask.data} />
        ) : (
          <p>Shows which jobs would start later or sooner. Changes nothing.</p>
        )}
      </Stack>
    </Panel>
  );
}
