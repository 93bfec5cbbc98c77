import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { ShieldAlert } from "lucide-react";
import { useEffect, useRef } from "react";

import { jobLinesQuery } from "@/api/ledger-queries";
import { attemptsQuery, jobEventsQuery, jobQuery } from "@/api/queries";
import type { Attempt, Job } from "@/api/schema";
import { EventTable } from "@/components/event-table";
import { ago, duration, gpuHours, moment, visible, words } from "@/components/format";
import { gpusNow, indexesText, modelText, processorLines } from "@/components/gpu-amount";
import { LedgerList } from "@/components/ledger/ledger-list";
import { JobMaintenanceNotice } from "@/components/maintenance-notice";
import { useNow } from "@/components/now";
import { Badge, jobLook, Tag } from "@/components/state-badge";
import { OpenPages, TerminalPanel } from "@/components/terminal/terminal-panel";
import { DependenciesPanel } from "@/features/job/dependencies-panel";
import { descriptionFacts } from "@/components/job/description";
import { FailurePanel } from "@/components/job/failure-panel";
import { JobActions } from "@/components/job/job-actions";
import {
  auxiliaryLines,
  CodeLine,
  dataSetText,
  enforcementWords,
  Preemptions,
  RunTime,
  TurnLine,
} from "@/features/job/job-facts";
import styles from "@/features/job/job-page.module.css";
import { JobWhatIf } from "@/features/job/job-what-if";
import { InputWorkersPanel } from "@/features/job/input-workers-panel";
import { ProgressPanel } from "@/features/job/progress-panel";
import { ScalingPanel } from "@/features/job/scaling-panel";
import { SensitivityPanel } from "@/features/job/sensitivity-panel";
import { ThroughputsPanel } from "@/features/job/throughputs-panel";
import { TimelinePanel } from "@/features/job/timeline-panel";
import { WaitingPanel } from "@/components/job/waiting-panel";
import { live, useNewestOne } from "@/live/live";
import { Tabs } from "@/ui/choice";
import { DataTable } from "@/ui/data-table";
import { EmptyState, ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { Facts, PageLayout, Panel, Stack } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";

const LogPanel = onDemand(async () => (await import("@/features/job/log-view")).LogPanel, <SkeletonLines />);
const JobMetricsPanel = onDemand(
  async () => (await import("@/components/metrics/metrics-panel")).JobMetricsPanel,
  <SkeletonLines />,
);
const ArtefactsPanel = onDemand(
  async () => (await import("@/features/job/artefacts-panel")).ArtefactsPanel,
  <SkeletonLines />,
);
const Specification = onDemand(async () => (await import("@/features/job/specification")).Specification);

const route = getRouteApi("/jobs/$id");
const TABS = ["overview", "log", "terminal", "metrics", "files", "events", "spec"] as const;
type Tab = (typeof TABS)[number];

export function JobPage() {
  const id = Number(route.useParams().id);
  // Step and throughput are facts that come without a new version of the job: asked for while it runs.
  const query = useQuery({
    ...jobQuery(id),
    refetchInterval: ({ state }) => (state.data?.state === "running" ? 10_000 : false),
  });
  const job = useNewestOne("job", query.data);
  if (query.error && !job) {
    return (
      <PageLayout title={`Job ${id}`}>
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      </PageLayout>
    );
  }
  if (!job) {
    return (
      <PageLayout title={`Job ${id}`}>
        <SkeletonLines count={8} />
      </PageLayout>
    );
  }
  return <JobView job={job} key={job.id} />;
}

function JobView({ job }: { job: Job }) {
  const { tab = "overview", rank, path } = route.useSearch();
  const navigate = route.useNavigate();
  const attempts = useAttempts(job);
  const open = TABS.find((each) => each === tab) ?? "overview";
  return (
    <PageLayout title={job.name} lead={<Lead job={job} />} actions={<JobButtons job={job} />}>
      <Tabs<Tab>
        label="Parts of the job"
        value={open}
        onChange={(next) => void navigate({ search: next === "overview" ? {} : { tab: next }, replace: true })}
        tabs={[
          { value: "overview", label: "Overview", content: () => <Overview job={job} attempts={attempts} /> },
          { value: "log", label: "Log", content: () => <LogPanel job={job} attempts={attempts} rank={rank} /> },
          { value: "metrics", label: "Metrics", content: () => <JobMetricsPanel job={job} /> },
          { value: "files", label: "Files", content: () => <ArtefactsPanel job={job.id} path={path ?? ""} /> },
          { value: "terminal", label: "Terminal", content: () => <TerminalPanel job={job} /> },
          { value: "events", label: "Events", content: () => <Events job={job} /> },
          {
            value: "spec",
            label: "Specification",
            content: () => <Specification job={job} />,
          },
        ]}
      />
    </PageLayout>
  );
}

function JobButtons({ job }: { job: Job }) {
  return (
    <>
      <OpenPages job={job} />
      <JobActions job={job} />
    </>
  );
}

/** All attempts; the newest comes with the job itself and is fresher there. */
function useAttempts(job: Job): Attempt[] {
  const query = useQuery(attemptsQuery(job.id));
  const seen = useRef(job.attempt?.state);
  const { refetch } = query;
  const state = `${job.attempt?.id ?? 0} ${job.attempt?.state ?? ""}`;
  useEffect(() => {
    if (seen.current !== undefined) void refetch();
    seen.current = job.attempt?.state;
  }, [state, job.attempt?.state, refetch]);
  const fetched = query.data ?? [];
  const { attempt } = job;
  return attempt ? [...fetched.filter((each) => each.id !== attempt.id), attempt] : fetched;
}

function Lead({ job }: { job: Job }) {
  const now = useNow();
  return (
    <>
      <Badge look={jobLook(job)} />
      <span>#{job.id}</span>
      {job.array && (
        <Link to="/jobs" search={{ array: String(job.array.number) }}>
          task {job.array.index} of array {job.array.number}
        </Link>
      )}
      {job.serves !== null && (
        <span>
          input worker of{" "}
          <Link to="/jobs/$id" params={{ id: String(job.serves) }}>
            job {job.serves}
          </Link>
        </span>
      )}
      <span>
        {job.gpus > 0 ? `${gpusNow(job)} × ` : ""}
        {modelText(job)}
      </span>
      <span>
        {job.tenant} in <Link to="/virtual-clusters">{job.virtual_cluster}</Link>
      </span>
      {job.guarantee === "opportunistic" && <Tag title="Runs on idle GPUs and gives way">opportunistic</Tag>}
      {job.guarantee_lapsed && <Tag title="Runs on as an opportunistic job for now">guarantee lapsed</Tag>}
      <span title={moment(job.submitted_at)}>
        submitted {ago(job.submitted_at, now)} by {job.submitted_by}
      </span>
    </>
  );
}

function Overview({ job, attempts }: { job: Job; attempts: readonly Attempt[] }) {
  return (
    <Stack>
      {job.state === "failed" && <FailurePanel job={job} />}
      {(job.held || job.state === "cancelled") && job.message && <Notice>{visible(job.message)}</Notice>}
      <JobMaintenanceNotice job={job} />
      {job.guarantee_lapsed && (
        <Notice icon={<ShieldAlert size={16} aria-hidden />}>
          Its guarantee has lapsed: what {job.virtual_cluster} is guaranteed now does not hold it any more; its events
          say why. It runs on as an opportunistic job, gives way to guaranteed ones, and is guaranteed again as soon as
          there is room for it.
        </Notice>
      )}
      {job.state === "queued" && <WaitingPanel job={job} />}
      {job.state === "queued" && <JobWhatIf job={job} />}
      <DependenciesPanel job={job} />
      <InputWorkersPanel job={job} />
      <TimelinePanel job={job} attempts={attempts} />
      <ThroughputsPanel job={job} />
      <LedgerPanel job={job.id} />
      <ScalingPanel job={job} />
      <SensitivityPanel job={job} />
      <div className={styles.columns}>
        <ProgressPanel job={job} />
        <Stack>
          <PlacementPanel job={job} />
          <Panel title="Facts">
            <Facts facts={factsOf(job)} />
          </Panel>
        </Stack>
      </div>
    </Stack>
  );
}

function factsOf(job: Job) {
  const labels = Object.entries(job.labels);
  return [
    ...descriptionFacts(job),
    ["Priority", String(job.priority)],
    ["Guarantee", job.guarantee],
    ["Time limit", timeLimit(job.spec.time_limit)],
    ...(job.spec.reservation ? [["Reservation", job.spec.reservation] as const] : []),
    ...(job.spec.data ? [["Data set", dataSetText(job.spec.data)] as const] : []),
    ...(job.spec.singleton ? [["Singleton", "runs alone of its name and user"] as const] : []),
    ...(job.attempt?.total_steps ? [["Run time", <RunTime key="run-time" job={job} />] as const] : []),
    ...(job.code ? [["Code", <CodeLine key="code" job={job.id} code={job.code} />] as const] : []),
    ["Attempts", String(job.attempts)],
    ["Preemptions", <Preemptions key="preemptions" job={job} />],
    ...(job.attempt?.turn ? [["Turns", <TurnLine key="turns" turn={job.attempt.turn} />] as const] : []),
    ...(job.attempt?.enforcement ? [["GPU part", enforcementWords(job.attempt.enforcement)] as const] : []),
    ...(job.attempt?.auxiliary
      ? [["CPUs, memory", auxiliaryLines(job.attempt.auxiliary).map((line) => <div key={line}>{line}</div>)] as const]
      : []),
    ...(processorLines(job.spec.tasks).length > 0
      ? [["CPUs, memory stated", processorLines(job.spec.tasks).map((line) => <div key={line}>{line}</div>)] as const]
      : []),
    // Counted when an attempt ends.
    [job.state === "running" ? "GPU time of earlier attempts" : "GPU time", gpuHours(job.service_gpu_seconds)],
    ["Submitted", moment(job.submitted_at)],
    ["First start", moment(job.started_at)],
    ["Ended", moment(job.ended_at)],
    ...(labels.length > 0
      ? [["Labels", visible(labels.map(([key, value]) => `${key}: ${value}`).join(", "))] as const]
      : []),
  ] as const;
}

/** The normal form is in seconds. */
function timeLimit(limit: unknown): string {
  if (typeof limit === "number") return duration(limit);
  return typeof limit === "string" ? limit : "the virtual cluster's default";
}

function Events({ job }: { job: Job }) {
  const query = useQuery(jobEventsQuery(job.id));
  const { refetch } = query;
  useEffect(() => void refetch(), [job.version, refetch]);
  return (
    <Panel flush>
      <EventTable events={query.data} query={query} empty={<EmptyState title="No events" />} />
    </Panel>
  );
}

/** Which GPUs the gang has, and which ranks run where. */
function PlacementPanel({ job }: { job: Job }) {
  const { attempt } = job;
  if (!attempt || attempt.state === "ended") {
    return (
      <Panel title="Placement">
        <EmptyState title={job.gpus > 0 ? "Holds no GPUs" : "Is on no node"} />
      </Panel>
    );
  }
  return (
    <Panel title="Placement" flush>
      <DataTable
        label="Placement"
        rows={attempt.placement}
        rowKey={({ node }) => node}
        columns={[
          {
            header: "Node",
            isRowHeader: true,
            cell: ({ node }) => (
              <Link to="/nodes/$name" params={{ name: node }}>
                {node}
              </Link>
            ),
          },
          { header: `${attempt.gpu_model} GPUs`.trim(), cell: ({ gpus }) => indexesText(gpus) },
          { header: "Ranks", cell: ({ ranks }) => ranks.join(", ") },
          { header: "State", cell: ({ state }) => words(state) },
        ]}
      />
    </Panel>
  );
}

const MOST_SHOWN = 5;

/** Where the job, or the app it belongs to, last took part in an auction or a trade; nothing where it never did. */
function LedgerPanel({ job }: { job: number }) {
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
