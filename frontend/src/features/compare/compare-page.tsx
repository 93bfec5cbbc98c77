import { useQueries } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useMemo, useState } from "react";

import { ApiError } from "@/api/client";
import { jobQuery, progressQuery } from "@/api/queries";
import type { Job } from "@/api/schema";
import { Chart, ChartKey } from "@/components/chart";
import { visible, words } from "@/components/format";
import { Badge, jobLook } from "@/components/state-badge";
import {
  type Axis,
  differences,
  isLessBetter,
  jobsIn,
  lastAndBest,
  LEAST_JOBS,
  metricsOfAll,
  MOST_JOBS,
  overlay,
  type Run,
} from "@/features/compare/compare-model";
import { Segments } from "@/ui/choice";
import { DataTable } from "@/ui/data-table";
import { EmptyState, ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { muted, PageLayout, Panel, Stack } from "@/ui/layout";

const route = getRouteApi("/compare");
const LOOK_AGAIN_MS = 10_000;
const CHARTS_MOST = 12;

/** Several runs side by side: their curves over one another, and the fields in which they differ. */
export function ComparePage() {
  const { jobs: address = "" } = route.useSearch();
  const ids = jobsIn(address);
  return (
    <PageLayout title="Compare jobs">
      {ids.length < LEAST_JOBS ? (
        <EmptyState title={`Choose ${LEAST_JOBS} to ${MOST_JOBS} jobs`} action={<Link to="/jobs">Go to the jobs</Link>}>
          Select them on the page of jobs, then choose Compare.
        </EmptyState>
      ) : (
        <Comparison key={ids.join(",")} ids={ids} />
      )}
    </PageLayout>
  );
}

interface Found extends Run {
  job: Job;
  /** The colour of its curves. */
  token: string;
}

/** Two requests for each job: what it is, and what it reported. */
function Comparison({ ids }: { ids: readonly number[] }) {
  const jobs = useQueries({ queries: ids.map((id) => ({ ...jobQuery(id), retry: false })) });
  const progress = useQueries({
    queries: ids.map((id, place) => ({
      ...progressQuery(id),
      enabled: jobs[place]?.data !== undefined,
      refetchInterval: jobs[place]?.data?.state === "running" ? LOOK_AGAIN_MS : (false as const),
    })),
  });
  const found = ids.flatMap((_, place): Found[] => {
    const job = jobs[place]?.data;
    const points = progress[place]?.data?.points ?? [];
    return job ? [{ job, points, startedAt: job.started_at, token: `crop-${place + 1}` }] : [];
  });
  const isPending = jobs.some((each) => each.isPending);
  return (
    <Stack>
      {jobs.map(({ error }, place) => {
        const id = ids[place] ?? 0;
        if (!error) return null;
        const isHidden = error instanceof ApiError && (error.status === 404 || error.status === 403);
        return isHidden ? (
          <Notice key={id}>Job {id} is not shown: there is no such job, or you may not see it.</Notice>
        ) : (
          <ErrorNotice key={id} error={error} onRetry={() => void jobs[place]?.refetch()} />
        );
      })}
      {isPending ? (
        <SkeletonLines count={8} />
      ) : (
        found.length > 0 && (
          <>
            <Runs found={found} />
            <Curves found={found} isPending={progress.some((each) => each.isLoading)} />
            <Differences found={found} />
          </>
        )
      )}
    </Stack>
  );
}

const nameOf = ({ job }: Found) => `${visible(job.name)} #${job.id}`;

/** The jobs, each with its colour. */
function Runs({ found }: { found: readonly Found[] }) {
  return (
    <Panel flush>
      <DataTable
        label="Jobs"
        rows={found}
        rowKey={({ job }) => job.id}
        columns={[
          {
            header: "Job",
            isRowHeader: true,
            cell: (each) => (
              <Link to="/jobs/$id" params={{ id: String(each.job.id) }}>
                {nameOf(each)}
              </Link>
            ),
          },
          { header: "State", cell: ({ job }) => <Badge look={jobLook(job)} /> },
          { header: "User", cell: ({ job }) => job.submitted_by },
          { header: "Tenant", cell: ({ job }) => job.tenant },
        ]}
      />
    </Panel>
  );
}

const AXES = [
  { value: "step", label: "Step" },
  { value: "time", label: "Time since start" },
] as const;

function Curves({ found, isPending }: { found: readonly Found[]; isPending: boolean }) {
  const [axis, setAxis] = useState<Axis>("step");
  const metrics = metricsOfAll(found);
  if (isPending) return <SkeletonLines count={8} />;
  if (metrics.length === 0) {
    return (
      <Panel title="Curves">
        <EmptyState title="None of these jobs reported progress">
          A job reports by appending JSON lines to the file <code>$ALLOT_PROGRESS</code>.
        </EmptyState>
      </Panel>
    );
  }
  return (
    <>
      <Panel title="Curves" actions={<Segments label="Curves by" value={axis} options={AXES} onChange={setAxis} />}>
        <Stack>
          <ChartKey series={found.map((each) => ({ label: nameOf(each), token: each.token }))} />
          {metrics.slice(0, CHARTS_MOST).map((metric) => (
            <MetricChart key={metric} found={found} metric={metric} axis={axis} />
          ))}
          {metrics.length > CHARTS_MOST && (
            <p className={muted}>{metrics.length - CHARTS_MOST} further metrics are in the table below only.</p>
          )}
        </Stack>
      </Panel>
      <Values found={found} metrics={metrics} />
    </>
  );
}

function MetricChart({ found, metric, axis }: { found: readonly Found[]; metric: string; axis: Axis }) {
  const { x, xLabel, curves } = useMemo(() => overlay(found, metric, axis), [found, metric, axis]);
  const series = found.map((each, place) => ({
    label: nameOf(each),
    token: each.token,
    values: curves[place] ?? [],
  }));
  return (
    <section>
      <h3>{words(metric)}</h3>
      {x.length < 2 ? (
        <p className={muted}>There are too few values for a curve.</p>
      ) : (
        <Chart label={`${metric} by ${axis}`} x={x} series={series} isTime={false} xLabel={xLabel} height={230} />
      )}
    </section>
  );
}

const figure = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });

/** What the curves end in, also for those who do not see them. */
function Values({ found, metrics }: { found: readonly Found[]; metrics: readonly string[] }) {
  return (
    <Panel title="Last and best values" flush>
      <DataTable
        label="Last and best values"
        rows={metrics.map((metric) => ({ metric }))}
        rowKey={({ metric }) => metric}
        columns={[
          {
            header: "Metric",
            isRowHeader: true,
            cell: ({ metric }) => `${visible(words(metric))} (best: ${isLessBetter(metric) ? "lowest" : "highest"})`,
          },
          ...found.map((each) => ({
            id: String(each.job.id),
            header: nameOf(each),
            isNumeric: true,
            cell: ({ metric }: { metric: string }) => {
              const values = lastAndBest(each, metric);
              return values ? `${figure.format(values.last)} (best ${figure.format(values.best)})` : "–";
            },
          })),
        ]}
      />
    </Panel>
  );
}

function Differences({ found }: { found: readonly Found[] }) {
  return (
    <Panel title="Differences between the specifications" flush>
      <DataTable
        label="Differences between the specifications"
        rows={differences(found.map(({ job }) => job.spec))}
        rowKey={({ field }) => field}
        empty={<EmptyState title="The specifications are the same" />}
        columns={[
          { header: "Field", isRowHeader: true, cell: ({ field }) => <code>{visible(field)}</code> },
          ...found.map((each, place) => ({
            id: String(each.job.id),
            header: nameOf(each),
            cell: ({ values }: { values: readonly string[] }) => visible(values[place] || "–"),
          })),
        ]}
      />
    </Panel>
  );
}
