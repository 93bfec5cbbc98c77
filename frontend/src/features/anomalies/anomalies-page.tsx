import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { Timer } from "lucide-react";
import { useMemo, useState } from "react";

import { anomaliesQuery, measureAnomalies } from "@/api/cell-queries";
import { virtualClustersQuery } from "@/api/queries";
import type { Anomalies } from "@/api/schema";
import { Chart, ChartKey, type ChartSeries } from "@/components/chart";
import { ago, counted, duration, moment, timeUnit } from "@/components/format";
import { useNow } from "@/components/now";
import { useSession } from "@/components/session";
import { AnomalyTable } from "@/features/anomalies/anomaly-table";
import { Button } from "@/ui/button";
import { Segments } from "@/ui/choice";
import { EmptyState, ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { Facts, muted, PageLayout, Panel } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

const route = getRouteApi("/virtual-clusters/$name/anomalies");
const SPANS = [
  { value: "6", label: "6 hours" },
  { value: "24", label: "24 hours" },
  { value: "168", label: "7 days" },
] as const;
type Span = (typeof SPANS)[number]["value"];

/** Whether sharing costs this virtual cluster time: its jobs' waiting here against a cluster of its own. */
export function AnomaliesPage() {
  const { name } = route.useParams();
  const query = useQuery(anomaliesQuery(name));
  return (
    <PageLayout
      title={`${name}: queueing delay compared with a private cluster`}
      lead={
        <>
          <span>A private cluster of only what {name} is guaranteed is simulated beside the real one.</span>
          <Link to="/virtual-clusters">All virtual clusters</Link>
        </>
      }
      actions={<Measure name={name} isMeasuring={query.data?.state === "waiting"} />}
    >
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines count={8} />}
      {query.data && <Measured measured={query.data} />}
    </PageLayout>
  );
}

/** For operators and members; everybody else sees what was measured. */
function Measure({ name, isMeasuring }: { name: string; isMeasuring: boolean }) {
  const me = useSession();
  const say = useSay();
  const queries = useQueryClient();
  const [span, setSpan] = useState<Span>("24");
  const clusters = useQuery(virtualClustersQuery);
  const members = clusters.data?.find((cluster) => cluster.name === name)?.members ?? [];
  const measure = useMutation({
    mutationFn: () => measureAnomalies(name, Number(span)),
    onSuccess: (waiting) => queries.setQueryData(anomaliesQuery(name).queryKey, waiting),
    onError: (error) => say("failed", error.message),
  });
  if (!me.is_operator && !me.tenants.some((tenant) => members.some((member) => member.tenant === tenant.name)))
    return null;
  return (
    <>
      <Segments<Span> label="Measure the last" value={span} options={SPANS} onChange={setSpan} />
      <Button
        look="primary"
        icon={<Timer size={15} aria-hidden />}
        busy={measure.isPending || isMeasuring}
        onClick={() => measure.mutate()}
      >
        Measure now
      </Button>
    </>
  );
}

function Measured({ measured }: { measured: Anomalies }) {
  if (measured.state === "never") {
    return (
      <EmptyState title="Not measured yet">
        It is measured automatically from time to time. Measure now starts at once.
      </EmptyState>
    );
  }
  return (
    <>
      {measured.state === "waiting" && <p role="status">Measuring: the private cluster is being simulated.</p>}
      {measured.state === "failed" && <Notice tone="failed">Measurement failed: {measured.problem}</Notice>}
      {measured.made_at && <Result measured={measured} />}
    </>
  );
}

function Result({ measured }: { measured: Anomalies }) {
  const now = useNow();
  const { x, series } = useMemo(() => delaySeries(measured.series), [measured.series]);
  const { delay } = measured;
  return (
    <>
      <Panel title="Time until jobs start">
        <Facts
          facts={[
            ["Jobs measured", measured.jobs],
            ["Mean here", wait(delay?.real_mean_seconds)],
            ["Mean alone", wait(delay?.private_mean_seconds)],
            ["95 % start within, here", wait(delay?.real_p95_seconds)],
            ["95 % start within, in a private cluster", wait(delay?.private_p95_seconds)],
            ["Measured", measured.made_at ? ago(measured.made_at, now) : "–"],
            ...(measured.never > 0 ? [["Too large for its private cluster", measured.never] as const] : []),
          ]}
        />
        {x.length > 1 && (
          <>
            <Chart label="Mean time until jobs start, by when they were submitted" x={x} series={series} ceiling={1} />
            <ChartKey series={series} />
          </>
        )}
      </Panel>
      <Panel title={`Waited longer here (${measured.count})`} flush>
        {measured.anomalies.length === 0 ? (
          <EmptyState title="No job waited longer here than in a private cluster">
            {measured.jobs === 0
              ? "No guaranteed job was submitted in this time."
              : `Each of ${counted(measured.jobs, "guaranteed job")} started within ${duration(measured.tolerance_seconds)} of its start in a private cluster, or earlier.`}
          </EmptyState>
        ) : (
          <AnomalyTable measured={measured} />
        )}
      </Panel>
      <p className={muted}>
        {moment(measured.since)} to {moment(measured.until)}. {measured.assumption}
      </p>
    </>
  );
}

function wait(seconds: number | null | undefined): string {
  return seconds == null ? "–" : duration(seconds);
}

export function delaySeries(points: Anomalies["series"]): { x: number[]; series: ChartSeries[] } {
  const sorted = [...points].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const longest = sorted.map(({ real_seconds, private_seconds }) => Math.max(real_seconds, private_seconds));
  const unit = timeUnit(Math.max(0, ...longest));
  const values = (seconds: number[]) => seconds.map((each) => each / unit.seconds);
  return {
    x: sorted.map(({ at }) => Date.parse(at) / 1000),
    series: [
      { label: `Here, ${unit.name}`, token: "crop-5", values: values(sorted.map(({ real_seconds }) => real_seconds)) },
      {
        label: `Alone, ${unit.name}`,
        token: "crop-1",
        dashed: true,
        values: values(sorted.map(({ private_seconds }) => private_seconds)),
      },
    ],
  };
}
