import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import { fairnessHistoryQuery } from "@/api/ledger-queries";
import { Chart, ChartKey } from "@/components/chart";
import { curvesOf } from "@/features/fairness/words";
import { Segments } from "@/ui/choice";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { Select } from "@/ui/field";
import { Panel } from "@/ui/layout";
import styles from "@/features/fairness/fairness.module.css";

const SPANS = [
  { value: "1", label: "1 hour" },
  { value: "6", label: "6 hours" },
  { value: "24", label: "24 hours" },
] as const;
type Span = (typeof SPANS)[number]["value"];

/** What one tenant received and was entitled to over time, and how late its jobs were. */
export function HistoryPanel({ name, tenants }: { name: string; tenants: readonly string[] }) {
  const [chosen, setChosen] = useState("");
  const [span, setSpan] = useState<Span>("1");
  const tenant = tenants.includes(chosen) ? chosen : (tenants[0] ?? "");
  const query = useQuery(fairnessHistoryQuery(name, tenant, Number(span)));
  const { gpus, rho } = useMemo(() => curvesOf(query.data ?? [], tenant), [query.data, tenant]);
  return (
    <Panel
      title="Over time"
      actions={
        <>
          <Select
            aria-label="Tenant"
            className={styles.choice}
            value={tenant}
            options={tenants.map((each) => ({ value: each, label: each }))}
            onChange={(event) => setChosen(event.target.value)}
          />
          <Segments<Span> label="The last" value={span} options={SPANS} onChange={setSpan} />
        </>
      }
    >
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines />}
      {query.data && gpus.x.length === 0 && <EmptyState title="No measurements in this time" />}
      {gpus.x.length > 0 && (
        <div className={styles.charts}>
          <div>
            <h3>GPUs</h3>
            <Chart label={`GPUs that ${tenant} received and was entitled to`} {...gpus} ceiling={1} />
            <ChartKey series={gpus.series} />
          </div>
          <div>
            <h3>Rho</h3>
            <Chart label={`Finish-time fairness of ${tenant}: its worst app and the mean`} {...rho} ceiling={1.5} />
            <ChartKey series={rho.series} />
          </div>
        </div>
      )}
    </Panel>
  );
}
