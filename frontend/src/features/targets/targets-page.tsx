import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { virtualClustersQuery } from "@/api/queries";
import type { Targets, VirtualCluster } from "@/api/schema";
import { jobTargetsQuery, targetsQuery } from "@/api/throughput-queries";
import { ago, counted } from "@/components/format";
import { useNow } from "@/components/now";
import { gpusText, JobTable, meantFor, modelsOf } from "@/features/targets/job-table";
import { type Column, DataTable } from "@/ui/data-table";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { muted, PageLayout, Panel } from "@/ui/layout";

const route = getRouteApi("/virtual-clusters/$name/targets");

/** Who shall have which part of each GPU model of a virtual cluster, and who had it. */
export function TargetsPage() {
  const { name } = route.useParams();
  const query = useQuery(targetsQuery(name));
  const cluster = useQuery(virtualClustersQuery).data?.find((each) => each.name === name);
  const now = useNow();
  const targets = query.data;
  return (
    <PageLayout
      title={`${name}: targets by GPU model`}
      lead={
        <>
          {cluster && <span>Policy {cluster.policy_plugin.name}</span>}
          {targets?.objective && <span>objective {targets.objective.replaceAll("_", " ")}</span>}
          {targets?.decided_at && <span>computed {ago(targets.decided_at, now)}</span>}
          <Link to="/virtual-clusters">All virtual clusters</Link>
        </>
      }
    >
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines count={8} />}
      {targets?.tenants.length === 0 && (
        <EmptyState title="No targets">
          {targets.decided_at
            ? "No job has a target at present."
            : `Policy ${cluster?.policy_plugin.name ?? ""} sets none, or has not decided yet. A policy such as gavel sets the part of its time that each job should spend on each GPU model.`}
        </EmptyState>
      )}
      {targets && targets.tenants.length > 0 && <Shares name={name} cluster={cluster} targets={targets} />}
    </PageLayout>
  );
}

interface SharesProps {
  name: string;
  cluster: VirtualCluster | undefined;
  targets: Targets;
}

function Shares({ name, cluster, targets }: SharesProps) {
  const jobs = useInfiniteQuery(jobTargetsQuery(name));
  const guaranteed = cluster?.guaranteed ?? {};
  const models = modelsOf(guaranteed, targets.tenants);
  const rows = jobs.data?.pages.flatMap((page) => page.results) ?? [];
  return (
    <>
      <Panel title="GPUs meant for each tenant, on average" flush>
        <DataTable
          label="Targets by tenant"
          rows={targets.tenants}
          rowKey={({ tenant }) => tenant}
          columns={[
            {
              header: "Tenant",
              isRowHeader: true,
              sortBy: ({ tenant }) => tenant,
              cell: ({ tenant }) => tenant,
              footer: ["Together"],
            },
            { header: "Jobs", isNumeric: true, sortBy: (tenant) => tenant.jobs, cell: (tenant) => tenant.jobs },
            ...models.map((model): Column<Targets["tenants"][number]> => ({
              id: `model ${model}`,
              header: model,
              isNumeric: true,
              sortBy: ({ gpus }) => gpus[model],
              cell: ({ gpus }) => gpusText(gpus[model]),
              footer: [
                <>
                  <strong>{gpusText(meantFor(targets.tenants, model))}</strong>{" "}
                  {guaranteed[model] !== undefined && <span className={muted}>of {guaranteed[model]}</span>}
                </>,
              ],
            })),
          ]}
        />
      </Panel>
      <Panel title="Time meant for each job" flush>
        <JobTable
          jobs={rows}
          models={models}
          query={jobs}
          skeletonLines={6}
          empty={<EmptyState title="No job of your tenants" />}
        />
      </Panel>
      <p className={muted}>
        A bar is the part of its time that a job should spend on a model; the mark on it is what it had since the
        targets were computed. GPUs outside all targets go to the jobs that gain by them.{" "}
        {rows.length > 0 && `${counted(rows.length, "job")} shown.`}
      </p>
    </>
  );
}
