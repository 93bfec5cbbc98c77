import { useQuery } from "@tanstack/react-query";
import { useEffect, useMemo } from "react";

import { sensitivityQuery } from "@/api/queries";
import type { Job, SensitivityPoint, TaskSensitivity } from "@/api/schema";
import { Chart, ChartKey } from "@/components/chart";
import { bytes, count, counted } from "@/components/format";
import styles from "@/features/job/scaling-panel.module.css";
import { DataTable } from "@/ui/data-table";
import { ErrorNotice } from "@/ui/feedback";
import { muted, oneLine, Panel } from "@/ui/layout";

const HEIGHT = 180;
const GIB = 2 ** 30;
const MARKS = { now: "today", proportional: "proportional share", best: "as fast as it can be" } as const;

/** Of a job that leaves CPUs or memory to the platform: how fast it is by them, and what it has of them today. */
export function SensitivityPanel({ job }: { job: Job }) {
  const isStated = job.spec.tasks.some(({ sensitivity, resources }) => sensitivity ?? resources.measure_cpu);
  const query = useQuery({ ...sensitivityQuery(job.id), enabled: isStated });
  const { refetch } = query;
  useEffect(() => {
    if (isStated) void refetch();
  }, [isStated, job.version, refetch]);
  if (query.isError) {
    return (
      <Panel title="Speed by CPUs and memory">
        <ErrorNotice error={query.error} onRetry={() => void refetch()} />
      </Panel>
    );
  }
  if (!query.data || query.data.tasks.length === 0) return null;
  const { tasks } = query.data;
  return (
    <Panel title="Speed by CPUs and memory">
      {tasks.map((task) => (
        <section key={task.task}>
          <p>
            {tasks.length > 1 && `${task.task}: `}
            {gainText(task)}
          </p>
          {task.measured && <p className={muted}>{measuredText(task.measured)}</p>}
          <div className={styles.charts}>
            <Curve task={task} of="CPUs" points={task.by_cpus} unit={1} written={count} />
            <Curve task={task} of="Memory" points={task.by_memory} unit={GIB} written={bytes} />
          </div>
        </section>
      ))}
    </Panel>
  );
}

interface CurveProps {
  task: TaskSensitivity;
  of: "CPUs" | "Memory";
  points: readonly SensitivityPoint[];
  /** What one step of the horizontal axis is. */
  unit: number;
  written: (amount: number) => string;
}

function Curve({ task, of, points, unit, written }: CurveProps) {
  const x = useMemo(() => points.map(({ amount }) => amount / unit), [points, unit]);
  const series = useMemo(() => curves(points), [points]);
  const marks = useMemo(() => marked(points, "now").map(({ amount }) => amount / unit), [points, unit]);
  if (points.length === 0) return null;
  const label = `Speed of ${task.task} by ${of}`;
  const axis = unit === 1 ? of : `${of}, GiB`;
  return (
    <div>
      <h3 className={styles.title}>
        By {of === "CPUs" ? of : "memory"}
        {marks.length > 0 && "; the line is what it has today"}
      </h3>
      <Chart
        label={label}
        x={x}
        series={series}
        isTime={false}
        xLabel={axis}
        height={HEIGHT}
        marks={marks}
        ceiling={0}
      />
      <ChartKey series={series} />
      <DataTable
        label={label}
        rows={points}
        rowKey={({ amount }) => String(amount)}
        columns={[
          { header: of, isRowHeader: true, className: oneLine, cell: ({ amount }) => written(amount) },
          { header: "Speed", isNumeric: true, cell: ({ speed }) => speed.toFixed(2) },
          {
            header: "Is",
            className: muted,
            cell: ({ marks: named }) => named.map((mark) => MARKS[mark]).join(", "),
          },
        ]}
      />
    </div>
  );
}

function marked(points: readonly SensitivityPoint[], mark: keyof typeof MARKS): SensitivityPoint[] {
  return points.filter(({ marks }) => marks.includes(mark));
}

/** The curve, and across it the speed of the proportional share, where that is known. */
function curves(points: readonly SensitivityPoint[]) {
  const own = { label: "Speed", token: "crop-1", values: points.map(({ speed }) => speed) };
  const [fair] = marked(points, "proportional");
  if (!fair) return [own];
  const level = {
    label: "With its proportional share",
    token: "crop-2",
    dashed: true,
    values: points.map(() => fair.speed),
  };
  return [own, level];
}

/** From what the curve by CPUs comes, where the platform finds it. */
export function measuredText({
  gpu_model: model,
  trials,
  is_over: isOver,
}: NonNullable<TaskSensitivity["measured"]>): string {
  if (!model) return "Its CPUs are measured while it runs.";
  const times = counted(trials, "trial");
  return isOver
    ? `Its CPUs were measured on ${model}, in ${times}.`
    : `Its CPUs are being measured on ${model}: ${times} so far.`;
}

/** What today's CPUs and memory make of it: "2.5 times as fast as with its proportional share". */
export function gainText({ now, proportional }: TaskSensitivity): string {
  if (!now || !proportional) return "It has not run yet, so its share of them is not known.";
  const gain = proportional.speed > 0 ? now.speed / proportional.speed : 1;
  if (gain.toFixed(2) === "1.00") return "As fast as with a proportional share.";
  return `${gain.toFixed(2)} times as fast as with its proportional share.`;
}
