import { Fragment } from "react";

import type { AdviceFigures, WholeAdvice } from "@/api/schema";
import { cellsText } from "@/components/cells/cell-use";
import { count, counted, duration } from "@/components/format";
import { ApplyAdvice } from "@/features/advice/apply-advice";
import { Curves } from "@/features/advice/curves";
import { isBetter } from "@/features/advice/draft";
import { EmptyState } from "@/ui/feedback";
import { muted, numeric, oneLine, Panel, TableFrame } from "@/ui/layout";
import styles from "@/features/advice/advice.module.css";

interface Metric {
  label: string;
  of: (figures: Partial<AdviceFigures>) => number | null | undefined;
  text: (value: number) => string;
  /** Less is better, or more is, or neither. */
  wanted: "less" | "more" | null;
}

const METRICS: readonly Metric[] = [
  { label: "GPUs", of: ({ gpus }) => gpus, text: count, wanted: null },
  { label: "Mean delay", of: ({ delay_mean_seconds: seconds }) => seconds, text: duration, wanted: "less" },
  { label: "95 % within", of: ({ delay_p95_seconds: seconds }) => seconds, text: duration, wanted: "less" },
  { label: "Utilisation", of: ({ utilisation }) => utilisation, text: percent, wanted: "more" },
  { label: "Cost per day", of: ({ cost_per_day: cost }) => cost, text: count, wanted: "less" },
];

/** Today's cells and the advised ones side by side, why, and what other choices would have come to. */
export function AdviceResult({ advice }: { advice: WholeAdvice }) {
  return (
    <>
      <Panel
        title={`From ${counted(advice.jobs, "job")} of ${counted(advice.days, "day")}`}
        flush
        actions={<ApplyAdvice advice={advice} />}
      >
        {advice.rows.length === 0 ? (
          <EmptyState title="There is nothing to advise">No virtual cluster had jobs in this time.</EmptyState>
        ) : (
          <Comparison advice={advice} />
        )}
      </Panel>
      {advice.assumption && <p className={muted}>{advice.assumption}</p>}
      <Curves curves={advice.curves} />
    </>
  );
}

function Comparison({ advice }: { advice: WholeAdvice }) {
  return (
    <TableFrame label="Today and as advised">
      <thead>
        <tr>
          <th rowSpan={2}>Virtual cluster</th>
          <th colSpan={2} scope="colgroup">
            Cells
          </th>
          {METRICS.map(({ label }) => (
            <th key={label} colSpan={2} scope="colgroup">
              {label}
            </th>
          ))}
        </tr>
        <tr>
          {["Cells", ...METRICS.map(({ label }) => label)].flatMap((label) => [
            <th key={`${label} today`}>today</th>,
            <th key={`${label} advised`}>advised</th>,
          ])}
        </tr>
      </thead>
      <tbody>
        {advice.rows.map(({ virtual_cluster, today, advised, why }) => (
          <Fragment key={virtual_cluster}>
            <tr className={styles.figures}>
              <th scope="rowgroup" rowSpan={2}>
                {virtual_cluster}
              </th>
              <td className={styles.cells}>{cellsText(today.cells)}</td>
              <td className={styles.cells}>{cellsText(advised.cells)}</td>
              {METRICS.map((metric) => (
                <Pair key={metric.label} metric={metric} today={today} advised={advised} />
              ))}
            </tr>
            <tr>
              <td colSpan={2 + 2 * METRICS.length} className={styles.why}>
                {why}
              </td>
            </tr>
          </Fragment>
        ))}
      </tbody>
      {advice.totals && (
        <tfoot>
          <tr>
            <th scope="row">All together</th>
            <td />
            <td />
            {METRICS.map((metric) => (
              <Pair
                key={metric.label}
                metric={metric}
                today={advice.totals?.today ?? {}}
                advised={advice.totals?.advised ?? {}}
              />
            ))}
          </tr>
        </tfoot>
      )}
    </TableFrame>
  );
}

interface PairProps {
  metric: Metric;
  today: Partial<AdviceFigures>;
  advised: Partial<AdviceFigures>;
}

function Pair({ metric, today, advised }: PairProps) {
  const [before, after] = [metric.of(today) ?? null, metric.of(advised) ?? null];
  const text = (value: number | null) => (value === null ? "–" : metric.text(value));
  const isAlike = metric.wanted === null || text(before) === text(after);
  const better = isAlike ? null : isBetter(before, after, metric.wanted === "less");
  return (
    <>
      <td className={`${numeric} ${oneLine}`}>{text(before)}</td>
      <td className={`${numeric} ${oneLine}`}>
        <span className={better === null ? undefined : better ? styles.better : styles.worse}>
          {text(after)}
          {better !== null && <span className="visually-hidden">{better ? ", better" : ", worse"}</span>}
        </span>
      </td>
    </>
  );
}

function percent(share: number): string {
  return `${count(100 * share)} %`;
}
