import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { nodeMetricsQuery } from "@/api/usage-queries";
import { MeasureCharts } from "@/components/metrics/measure-charts";
import { SPANS, type Span } from "@/components/metrics/spans";
import { Segments } from "@/ui/choice";
import { EmptyState, ErrorNotice, Skeleton } from "@/ui/feedback";
import { Panel, Stack } from "@/ui/layout";
import styles from "@/components/metrics/metrics.module.css";

const VIEWS = [
  { value: "node", label: "All GPUs" },
  { value: "gpu", label: "Each GPU" },
] as const;

/** What the machine and its GPUs did. */
export function NodeMetricsPanel({ name }: { name: string }) {
  const [span, setSpan] = useState<Span>("3600");
  const [by, setBy] = useState<(typeof VIEWS)[number]["value"]>("node");
  const query = useQuery(nodeMetricsQuery(name, { by, seconds: Number(span) }));
  return (
    <Panel
      title="Metrics"
      actions={
        <div className={styles.choices}>
          <Segments label="What is shown together" value={by} options={VIEWS} onChange={setBy} />
          <Segments label="Time span" value={span} options={SPANS} onChange={setSpan} />
        </div>
      }
    >
      {query.isError ? (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      ) : query.isPending ? (
        <Skeleton height="12rem" />
      ) : query.data.series.length === 0 ? (
        <EmptyState title="No readings of that time">The node agent sends one about every ten seconds.</EmptyState>
      ) : (
        <Stack>
          <MeasureCharts metrics={query.data} />
        </Stack>
      )}
    </Panel>
  );
}
