import { keepPreviousData, queryOptions, useQuery, type UseQueryResult } from "@tanstack/react-query";
import { type ReactNode, useMemo, useState } from "react";

import { answerOf, api } from "@/api/client";
import type { Job, NodeMetricsAnswer } from "@/api/schema";
import { MeasureCharts } from "@/components/metrics/measure-charts";
import { Segments } from "@/ui/choice";
import { EmptyState, ErrorNotice, Skeleton } from "@/ui/feedback";
import { Panel, Row, Stack } from "@/ui/layout";

const SPANS = [
  { value: "900", label: "15 min" },
  { value: "3600", label: "1 h" },
  { value: "21600", label: "6 h" },
  { value: "172800", label: "2 d" },
  { value: "2678400", label: "31 d" },
] as const;

type Span = (typeof SPANS)[number]["value"];

interface MetricsPanelProps {
  query: UseQueryResult<NodeMetricsAnswer>;
  /** What can be chosen: what is shown together, and of which time. */
  choices: ReactNode;
  /** Said when there are no readings. */
  empty: ReactNode;
  /** Unix seconds. */
  marks?: readonly number[];
}

/** What a machine's GPUs did, or a job's. */
function MetricsPanel({ query, choices, empty, marks }: MetricsPanelProps) {
  return (
    <Panel title="Metrics" actions={<Row>{choices}</Row>}>
      {query.isError ? (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      ) : query.isPending ? (
        <Skeleton height="12rem" />
      ) : query.data.series.length === 0 ? (
        <EmptyState title="No readings in this time">{empty}</EmptyState>
      ) : (
        <Stack>
          <MeasureCharts metrics={query.data} {...(marks ? { marks } : {})} />
        </Stack>
      )}
    </Panel>
  );
}

const JOB_VIEWS = [
  { value: "attempt", label: "Together" },
  { value: "gpu", label: "Each GPU" },
  { value: "rank", label: "Each rank" },
] as const;

const JOB_SPANS = [{ value: "all", label: "All" }, ...SPANS] as const;

/** What the job's attempts used; a dashed line marks where each began. */
export function JobMetricsPanel({ job }: { job: Job }) {
  const [span, setSpan] = useState<Span | "all">("all");
  const [by, setBy] = useState<(typeof JOB_VIEWS)[number]["value"]>("attempt");
  const seconds = span === "all" ? undefined : Number(span);
  const query = useQuery(jobMetricsQuery(job.id, { by, seconds }, job.state === "running"));
  const attempts = query.data?.attempts;
  const marks = useMemo(() => attempts?.map(({ started_at }) => Date.parse(started_at) / 1000) ?? [], [attempts]);
  return (
    <MetricsPanel
      query={query}
      choices={
        <>
          <Segments label="Group curves by" value={by} options={JOB_VIEWS} onChange={setBy} />
          <Segments label="Time span" value={span} options={JOB_SPANS} onChange={setSpan} />
        </>
      }
      empty="While a job runs, its nodes report its use about every ten seconds. Readings are kept for a month."
      marks={marks}
    />
  );
}

const NODE_VIEWS = [
  { value: "node", label: "All GPUs" },
  { value: "gpu", label: "Each GPU" },
] as const;

/** What the machine and its GPUs did. */
export function NodeMetricsPanel({ name }: { name: string }) {
  const [span, setSpan] = useState<Span>("3600");
  const [by, setBy] = useState<(typeof NODE_VIEWS)[number]["value"]>("node");
  const query = useQuery(nodeMetricsQuery(name, { by, seconds: Number(span) }));
  return (
    <MetricsPanel
      query={query}
      choices={
        <>
          <Segments label="Group curves by" value={by} options={NODE_VIEWS} onChange={setBy} />
          <Segments label="Time span" value={span} options={SPANS} onChange={setSpan} />
        </>
      }
      empty="The node agent sends a reading about every ten seconds."
    />
  );
}

/** Readings come about every ten seconds. */
const LOOK_AGAIN_MS = 10_000;

interface Wanted<By> {
  by: By;
  /** How long until now; undefined: all there is, or of a node the last hour. */
  seconds?: number | undefined;
}

const jobMetricsQuery = (id: number, wanted: Wanted<"attempt" | "gpu" | "rank">, isRunning: boolean) =>
  queryOptions({
    queryKey: ["usage", "job", id, wanted],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/jobs/{job_id}/metrics", { params: { path: { job_id: id }, query: asked(wanted) }, signal })),
    refetchInterval: isRunning ? LOOK_AGAIN_MS : false,
    placeholderData: keepPreviousData,
  });

const nodeMetricsQuery = (name: string, wanted: Wanted<"node" | "gpu">) =>
  queryOptions({
    queryKey: ["usage", "node", name, wanted],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/nodes/{name}/metrics", { params: { path: { name }, query: asked(wanted) }, signal })),
    refetchInterval: LOOK_AGAIN_MS,
    placeholderData: keepPreviousData,
  });

function asked<By>({ by, seconds }: Wanted<By>) {
  const since = seconds === undefined ? undefined : new Date(Date.now() - seconds * 1000).toISOString();
  return { by, since };
}
