import type { UseQueryResult } from "@tanstack/react-query";
import type { ReactNode } from "react";

import type { NodeMetricsAnswer } from "@/api/schema";
import { MeasureCharts } from "@/components/metrics/measure-charts";
import { EmptyState, ErrorNotice, Skeleton } from "@/ui/feedback";
import { Panel, Row, Stack } from "@/ui/layout";

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
export function MetricsPanel({ query, choices, empty, marks }: MetricsPanelProps) {
  return (
    <Panel title="Metrics" actions={<Row>{choices}</Row>}>
      {query.isError ? (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      ) : query.isPending ? (
        <Skeleton height="12rem" />
      ) : query.data.series.length === 0 ? (
        <EmptyState title="No readings of that time">{empty}</EmptyState>
      ) : (
        <Stack>
          <MeasureCharts metrics={query.data} {...(marks ? { marks } : {})} />
        </Stack>
      )}
    </Panel>
  );
}
