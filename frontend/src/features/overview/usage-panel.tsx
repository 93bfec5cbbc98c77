import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import { usageQuery } from "@/api/queries";
import type { UsagePoint } from "@/api/schema";
import { Chart, type ChartSeries } from "@/components/chart";
import { tenantSlots } from "@/components/tenant-colour";
import styles from "@/features/overview/overview-page.module.css";
import { useLiveState } from "@/live/live";
import { Segments } from "@/ui/choice";
import { EmptyState, ErrorNotice, Skeleton } from "@/ui/feedback";
import { Key } from "@/ui/key";
import { Panel } from "@/ui/layout";

const SPANS = [
  { value: "60", label: "1 hour" },
  { value: "360", label: "6 hours" },
  { value: "1440", label: "24 hours" },
] as const;

type Span = (typeof SPANS)[number]["value"];

/** GPUs in use over time, stacked by tenant. */
export function UsagePanel({ tenants }: { tenants: readonly string[] }) {
  const [span, setSpan] = useState<Span>("60");
  const usage = useQuery(usageQuery(Number(span)));
  const streamed = useLiveState().usage;
  const points = useMemo(() => joinPoints(usage.data?.points ?? [], streamed), [usage.data, streamed]);
  const { at, total, layers } = useMemo(() => stackUsage(points), [points]);
  const slots = tenantSlots([...tenants, ...layers.map((layer) => layer.tenant).filter((name) => name !== OTHERS)]);
  const tokenOf = (tenant: string) => (tenant === OTHERS ? "crop-none" : `crop-${slots.get(tenant) ?? 1}`);
  const series: ChartSeries[] = [
    ...layers.map(({ tenant, values }) => ({ label: tenant, token: tokenOf(tenant), values, stacked: true })),
    { label: "All GPUs", token: "ink-muted", values: total, dashed: true },
  ];
  return (
    <Panel
      title="GPUs in use by tenant"
      actions={<Segments label="Time span" value={span} options={SPANS} onChange={setSpan} />}
    >
      {usage.isError ? (
        <ErrorNotice error={usage.error} onRetry={() => void usage.refetch()} />
      ) : usage.isPending ? (
        <Skeleton height="13rem" />
      ) : points.length < 2 ? (
        <EmptyState title="No usage recorded yet">The curve begins with the first rounds.</EmptyState>
      ) : (
        <>
          <Chart
            label="GPUs in use over time, stacked by tenant"
            x={at}
            series={series}
            height={210}
            ceiling={Math.max(1, ...total)}
          />
          <Key className={styles.usageLegend} aria-label="Tenants, most recent use">
            {[...layers].reverse().map(({ tenant }) => (
              <li key={tenant}>
                <span style={{ background: `var(--${tokenOf(tenant)})` }} />
                {tenant} {points.at(-1)?.by_tenant[tenant] ?? 0}
              </li>
            ))}
          </Key>
        </>
      )}
    </Panel>
  );
}

/** What was fetched, continued by what the stream brought since. */
function joinPoints(fetched: readonly UsagePoint[], streamed: readonly UsagePoint[]): UsagePoint[] {
  const last = Date.parse(fetched.at(-1)?.at ?? "1970-01-01T00:00:00Z");
  return [...fetched, ...streamed.filter((point) => Date.parse(point.at) > last)];
}

interface Layers {
  /** Seconds since 1970. */
  at: number[];
  total: number[];
  /** From the top of the stack down: each layer's values include all below it. */
  layers: { tenant: string; values: number[] }[];
}

export function stackUsage(points: readonly UsagePoint[]): Layers {
  const tenants = [...new Set(points.flatMap((point) => Object.keys(point.by_tenant)))].sort(othersLast);
  const below = points.map(() => 0);
  const layers = tenants.map((tenant) => {
    points.forEach((point, index) => (below[index] = (below[index] ?? 0) + (point.by_tenant[tenant] ?? 0)));
    return { tenant, values: [...below] };
  });
  return {
    at: points.map((point) => Date.parse(point.at) / 1000),
    total: points.map((point) => point.total),
    // Drawn from the top down, so that each lower layer covers the one above it.
    layers: layers.reverse(),
  };
}

/** What the viewer may not see by name is on top of the stack. */
function othersLast(a: string, b: string): number {
  return Number(a === OTHERS) - Number(b === OTHERS) || a.localeCompare(b);
}

const OTHERS = "others";
