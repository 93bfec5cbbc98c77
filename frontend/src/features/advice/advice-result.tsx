import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { Fragment, useMemo, useState } from "react";

import { cellsQuery } from "@/api/cell-queries";
import { answerOf, api } from "@/api/client";
import type { AdviceFigures, WholeAdvice } from "@/api/schema";
import { cellsText } from "@/components/cells/cell-use";
import { Effects, lapsesOf } from "@/components/cells/effects";
import { Chart } from "@/components/chart";
import { count, counted, duration, moment, timeUnit } from "@/components/format";
import { Tag } from "@/components/state-badge";
import styles from "@/features/advice/advice.module.css";
import { curveOf, isBetter } from "@/features/advice/draft";
import { Button, buttonClass } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { Confirm } from "@/ui/confirm";
import { EmptyState, ErrorNotice } from "@/ui/feedback";
import { Select } from "@/ui/field";
import { muted, numeric, oneLine, Panel, TableFrame } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

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

/** Puts the advised cells in force, after telling which running jobs would lose their guarantee. */
function ApplyAdvice({ advice }: { advice: WholeAdvice }) {
  const [asking, setAsking] = useState(false);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const say = useSay();
  const check = useQuery({
    queryKey: ["cells", "check", "advice", advice.id],
    queryFn: ({ signal }) =>
      answerOf(api.POST("/cells/check", { body: { specification: advice.specification ?? {} }, signal })),
    enabled: asking,
    staleTime: 0,
  });
  const apply = useMutation({
    mutationFn: () =>
      answerOf(api.POST("/cells/advice/{advice_id}/apply", { params: { path: { advice_id: advice.id } } })),
    onSuccess: async (cells) => {
      queries.setQueryData(cellsQuery.queryKey, cells);
      for (const key of ["cells", "virtual-clusters", "advice"]) void queries.invalidateQueries({ queryKey: [key] });
      say("done", `The advised cells are in force as version ${cells.version}.`);
      await navigate({ to: "/cells" });
    },
  });
  const lapses = lapsesOf(check.data?.effects);
  return (
    <>
      {advice.applied_at && <Tag>applied {moment(advice.applied_at)}</Tag>}
      {advice.specification && (
        <Link to="/cells/edit" search={{ advice: advice.id }} className={buttonClass()}>
          Edit first
        </Link>
      )}
      <Button look="primary" disabled={!advice.specification} onClick={() => setAsking(true)}>
        Apply
      </Button>
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title="Apply the advised cells?"
        description="Every virtual cluster gets the cells in the column “advised”. No job is stopped by this."
        action="Apply"
        busy={apply.isPending || check.isPending}
        onConfirm={() => apply.mutate()}
      >
        {check.data && lapses.length === 0 && <p>No running job would lose its guarantee.</p>}
        {lapses.length > 0 && <Effects effects={lapses} />}
        {apply.error && <ErrorNotice error={apply.error} />}
      </Confirm>
    </>
  );
}

/** The one of which there is most to see. */
function mostTried(curves: WholeAdvice["curves"]): string {
  const sorted = Object.entries(curves).sort(([, a], [, b]) => b.length - a.length);
  return sorted[0]?.[0] ?? "";
}

/** What each virtual cluster's jobs would wait with fewer or more cells. */
function Curves({ curves }: { curves: WholeAdvice["curves"] }) {
  const names = Object.keys(curves).sort();
  const [chosen, setChosen] = useState("");
  const name = names.includes(chosen) ? chosen : mostTried(curves);
  const points = useMemo(() => curveOf(curves[name] ?? []), [curves, name]);
  const unit = timeUnit(Math.max(0, ...points.map((point) => point.delay_mean_seconds)));
  const series = [
    {
      label: `Mean delay, ${unit.name}`,
      token: "crop-4",
      values: points.map((point) => point.delay_mean_seconds / unit.seconds),
    },
  ];
  if (names.length === 0) return null;
  return (
    <Panel
      title={`Mean delay in ${unit.name}, over cells`}
      flush
      actions={
        <Select
          aria-label="Virtual cluster"
          value={name}
          onChange={(event) => setChosen(event.target.value)}
          options={names.map((each) => ({ value: each, label: each }))}
        />
      }
    >
      {points.length > 1 && (
        <Chart
          label={`Mean delay of ${name} in ${unit.name} by the number of its GPUs`}
          x={points.map(({ gpus }) => gpus)}
          series={series}
          isTime={false}
          xLabel="GPUs"
          ceiling={1}
        />
      )}
      <DataTable
        label={`Choices of ${name}`}
        rows={points}
        rowKey={({ gpus }) => gpus}
        columns={[
          { header: "Cells", cell: ({ cells }) => cellsText(cells) },
          { header: "GPUs", isNumeric: true, cell: ({ gpus }) => gpus },
          { header: "Mean delay", isNumeric: true, cell: (point) => duration(point.delay_mean_seconds) },
        ]}
      />
    </Panel>
  );
}
