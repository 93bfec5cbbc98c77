import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";

import { progressQuery } from "@/api/queries";
import type { Job, ProgressPoint } from "@/api/schema";
import { Chart } from "@/components/chart";
import { count, words } from "@/components/format";
import { curveOf, metricsOf } from "@/components/metrics/progress-curves";
import { live } from "@/live/live";
import { Segments } from "@/ui/choice";
import { EmptyState, ErrorNotice, Skeleton } from "@/ui/feedback";
import { Facts, Panel } from "@/ui/layout";

const METRICS_SHOWN = 6;
const MOST_STREAMED = 2000;

/** What the job reports about its training: curves by step, throughput, how far it is. */
export function ProgressPanel({ job }: { job: Job }) {
  const progress = useQuery(progressQuery(job.id));
  const streamed = useStreamedPoints(job.id);
  const [chosen, setChosen] = useState("");
  const points = useMemo(() => [...(progress.data?.points ?? []), ...streamed], [progress.data, streamed]);
  const metrics = metricsOf(points).slice(0, METRICS_SHOWN);
  const metric = metrics.includes(chosen) ? chosen : (metrics[0] ?? "");
  const curve = useMemo(() => curveOf(points, metric), [points, metric]);
  const series = useMemo(() => [{ label: words(metric), token: "crop-1", values: curve.values }], [metric, curve]);
  return (
    <Panel
      title="Progress"
      actions={
        metrics.length > 1 && (
          <Segments
            label="Value"
            value={metric}
            onChange={setChosen}
            options={metrics.map((name) => ({ value: name, label: words(name) }))}
          />
        )
      }
    >
      {progress.isError ? (
        <ErrorNotice error={progress.error} onRetry={() => void progress.refetch()} />
      ) : progress.isPending ? (
        <Skeleton height="12rem" />
      ) : curve.steps.length < 2 ? (
        <EmptyState title="No progress reported">
          A job reports by appending JSON lines to the file <code>$ALLOT_PROGRESS</code>: step, samples, loss and other
          metrics.
        </EmptyState>
      ) : (
        <>
          <Facts facts={throughputFacts(job)} />
          <Chart
            label={`${metric} by step`}
            x={curve.steps}
            series={series}
            isTime={false}
            xLabel="Step"
            height={230}
          />
        </>
      )}
    </Panel>
  );
}

function throughputFacts(job: Job): [string, string][] {
  const { attempt } = job;
  const facts: [string, string][] = [];
  if (attempt?.step != null) {
    const total = attempt.total_steps;
    facts.push([
      "Step",
      total
        ? `${count(attempt.step)} of ${count(total)} (${Math.floor((100 * attempt.step) / total)} %)`
        : count(attempt.step),
    ]);
  }
  if (attempt?.throughput != null) facts.push(["Throughput", `${count(attempt.throughput)} samples/s`]);
  return facts;
}

/** Points since the page was opened; the query brings the ones before. */
function useStreamedPoints(job: number): ProgressPoint[] {
  const [points, setPoints] = useState<ProgressPoint[]>([]);
  useEffect(() => {
    const stopWatching = live.watchLog(job);
    const unsubscribe = live.subscribeAside((message) => {
      if (message.type !== "progress" || message.job !== job) return;
      setPoints((known) => [...known, ...message.points].slice(-MOST_STREAMED));
    });
    return () => {
      unsubscribe();
      stopWatching();
    };
  }, [job]);
  return points;
}
