import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { createContext, useContext } from "react";

import { jobCountsQuery } from "@/api/queries";
import type { Job } from "@/api/schema";
import { count, duration, gpuHours, inLocalTime, moment, secondsBetween, visible } from "@/components/format";
import { gpuAmount, gpusHeld } from "@/components/gpu-amount";
import { Requeue } from "@/components/job/requeue";
import { useNow } from "@/components/now";
import { mayActFor } from "@/components/roles";
import { useSession } from "@/components/session";
import { Badge, jobLook, Tag } from "@/components/state-badge";
import { ActOnJobs } from "@/features/jobs/job-actions";
import { countWords, StateBar, Unfold } from "@/features/jobs/state-counts";
import { DataTable, type Column, type DataTableProps, type RowChoice } from "@/ui/data-table";
import { Checkbox } from "@/ui/field";
import { oneLine } from "@/ui/layout";
import styles from "@/features/jobs/jobs-page.module.css";

interface JobTableProps extends Pick<DataTableProps<Job>, "query" | "empty" | "skeletonLines" | "order" | "below"> {
  jobs: readonly Job[];
  /** Whether a row of an array stands for all its tasks. */
  isFolded: boolean;
  /** The numbers of the arrays whose tasks stand below them. */
  unfolded: ReadonlySet<number>;
  onUnfold: (array: number) => void;
  /** The columns beside the job's name and state. */
  shown: readonly ColumnName[];
  selected: ReadonlySet<number>;
  onSelect: (selected: ReadonlySet<number>) => void;
}

/** The job that is shown beside the tables, and what chooses another; without it none can be chosen. */
export const ChosenJob = createContext<RowChoice<Job> | undefined>(undefined);

export function toggled<T>(all: ReadonlySet<T>, one: T): ReadonlySet<T> {
  const next = new Set(all);
  if (!next.delete(one)) next.add(one);
  return next;
}

export function JobTable({ jobs, shown, selected, onSelect, isFolded, unfolded, onUnfold, ...rest }: JobTableProps) {
  const choice = useContext(ChosenJob);
  const arrayOf = ({ array }: Job) => (isFolded && array !== null && array.size > 1 ? array : null);
  const selection: Column<Job> = {
    id: "selection",
    header: (
      <Checkbox
        label="Select all on this page"
        bare
        checked={jobs.every((job) => selected.has(job.id))}
        onChange={(event) => onSelect(new Set(event.target.checked ? jobs.map((job) => job.id) : []))}
      />
    ),
    cell: (job) => (
      <Checkbox
        label={`Select ${job.name}`}
        bare
        checked={selected.has(job.id)}
        onChange={() => onSelect(toggled(selected, job.id))}
      />
    ),
  };
  return (
    <DataTable
      label="Jobs"
      rows={jobs}
      rowKey={({ id }) => id}
      choice={choice}
      rowAttributes={({ id }) => ({ "data-selected": selected.has(id) || undefined })}
      columns={[
        selection,
        {
          header: "Job",
          order: "name",
          isRowHeader: true,
          className: styles.name,
          cell: (job) => {
            const array = arrayOf(job);
            const isOpen = array !== null && unfolded.has(array.number);
            return (
              <>
                {array && <Unfold name={job.name} isOpen={isOpen} onToggle={() => onUnfold(array.number)} />}
                <JobName job={job} array={array} />
              </>
            );
          },
        },
        {
          header: "State",
          headerClassName: styles.wide,
          className: styles.wide,
          cell: (job) => <StateBadge job={job} array={arrayOf(job)} />,
        },
        ...COLUMN_NAMES.map((name) => shown.includes(name) && COLUMNS[name]),
        !isFolded && {
          header: "Actions",
          isHeaderHidden: true,
          cell: (job) => <Requeue job={job} look="quiet" />,
        },
      ]}
      {...rest}
    />
  );
}

type JobArray = NonNullable<Job["array"]>;

/** How many tasks of an array are in each state. */
function useTaskCounts(array: JobArray | null) {
  const { data } = useQuery({ ...jobCountsQuery({ array: array?.number ?? 0 }), enabled: array !== null });
  return array ? data : undefined;
}

/** What an array is as a whole: the first of these that one of its tasks is. */
const FIRST_STATES = ["running", "queued", "failed", "cancelled", "succeeded"] as const;

function StateBadge({ job, array }: { job: Job; array: JobArray | null }) {
  const counts = useTaskCounts(array);
  const state = counts && FIRST_STATES.find((each) => counts[each]);
  const whole = state && ({ state, phase: state === "running" ? state : "waiting", cancelling: false } as const);
  return <Badge look={jobLook(whole ?? job)} />;
}

/** A row that stands for an array says how its tasks are doing, and leads to the list of them. */
function ArrayTasks({ array, mayAct }: { array: JobArray; mayAct: boolean }) {
  const counts = useTaskCounts(array);
  const number = String(array.number);
  return (
    <>
      <Link to="/jobs" search={{ array: number }}>
        array of {count(array.size)}
        {counts && `: ${countWords(counts)}`}
      </Link>
      {counts && <StateBar counts={counts} />}
      {mayAct && <ActOnJobs filter={{ array: number }}>Change the array</ActOnJobs>}
    </>
  );
}

function JobName({ job, array }: { job: Job; array: JobArray | null }) {
  const me = useSession();
  const note = visible(noteOf(job, useNow()));
  return (
    <>
      <Link to="/jobs/$id" params={{ id: String(job.id) }}>
        {job.name}
      </Link>{" "}
      <span className={styles.id}>#{job.id}</span>{" "}
      {array ? (
        <ArrayTasks array={array} mayAct={mayActFor(me, job.tenant)} />
      ) : (
        job.array && job.array.size > 1 && <Tag>[{job.array.index}]</Tag>
      )}
      {job.priority !== 0 && <Tag title="Higher goes first">priority {job.priority}</Tag>}
      <span className={styles.narrow}>
        <StateBadge job={job} array={array} />
      </span>
      {note && (
        <p className={styles.note} title={note}>
          {note}
        </p>
      )}
    </>
  );
}

/** The columns that a person chooses, in the order in which they stand. */
const COLUMNS = {
  inState: { header: "In state", className: oneLine, cell: (job) => <TimeInState job={job} /> },
  gpus: {
    header: "GPUs",
    order: "gpus",
    isNumeric: true,
    className: oneLine,
    cell: (job) => (
      <>
        {gpusOf(job)}{" "}
        {job.gpus > 0 && <span className={styles.id}>{job.attempt?.gpu_model ?? job.gpu_models.join(" or ")}</span>}
      </>
    ),
  },
  runTime: { header: "Run time", className: oneLine, cell: (job) => <RunTime job={job} /> },
  gpuHours: {
    header: "GPU-hours",
    isNumeric: true,
    className: oneLine,
    cell: (job) => (job.service_gpu_seconds > 0 ? gpuHours(job.service_gpu_seconds) : "–"),
  },
  user: { header: "User", cell: ({ submitted_by }) => submitted_by },
  tenant: { header: "Tenant", cell: ({ tenant }) => tenant },
  virtualCluster: {
    header: "Virtual cluster",
    className: oneLine,
    cell: (job) => (
      <>
        {job.virtual_cluster}
        {job.guarantee === "opportunistic" && <p className={styles.id}>opportunistic</p>}
      </>
    ),
  },
  priority: { header: "Priority", order: "priority", isNumeric: true, cell: ({ priority }) => priority },
  labels: {
    header: "Labels",
    cell: ({ labels }) => Object.entries(labels).map(([key, value]) => <Tag key={key}>{`${key}: ${value}`}</Tag>),
  },
  submitted: {
    header: "Submitted",
    order: "submitted",
    className: oneLine,
    cell: (job) => moment(job.submitted_at),
  },
  started: { header: "Started", order: "started", className: oneLine, cell: (job) => moment(job.started_at) },
  ended: { header: "Ended", order: "ended", className: oneLine, cell: (job) => moment(job.ended_at) },
} as const satisfies Record<string, Column<Job>>;

export type ColumnName = keyof typeof COLUMNS;

export const COLUMN_NAMES = Object.keys(COLUMNS) as readonly ColumnName[];

export const USUAL_COLUMNS: readonly ColumnName[] = [
  "inState",
  "gpus",
  "user",
  "tenant",
  "virtualCluster",
  "submitted",
];

export function columnTitle(name: ColumnName): string {
  return COLUMNS[name].header;
}

/** The GPUs that it asks for; of an elastic job that runs those that it has, and its range: `3 (1-4)`. */
function gpusOf({ gpus, spec, state, attempt }: Job): string {
  const has = attempt ? gpusHeld(attempt) : 0;
  if (!spec.elastic || state !== "running" || has === 0) return gpuAmount(gpus, spec.tasks);
  return `${has} (${spec.elastic.min_gpus ?? gpus}-${spec.elastic.max_gpus ?? gpus})`;
}

/** The one thing to know about a job beyond its state, with times as the viewer's clock has them. */
function noteOf(job: Job, now: number): string {
  if (job.state === "queued") {
    const place = job.position === null ? "" : `No. ${job.position}. `;
    return place + inLocalTime(job.reasons[0]?.message ?? "", now);
  }
  if (job.state === "failed") return job.message;
  if (job.state === "running" && job.preemptions > 0) return `Preempted ${job.preemptions}×, running again`;
  return "";
}

function TimeInState({ job }: { job: Job }) {
  const now = useNow();
  const since =
    job.ended_at ?? (job.state === "running" ? (job.attempt?.running_at ?? job.started_at) : waitingSince(job));
  const seconds = secondsBetween(since, null, now);
  return <>{seconds === null ? "–" : duration(seconds)}</>;
}

/** From its first start to its end, or until now. */
export function RunTime({ job: { started_at: start, ended_at: end } }: { job: Job }) {
  const now = useNow();
  const seconds = start === null ? null : secondsBetween(start, end, now);
  return <>{seconds === null ? "–" : duration(seconds)}</>;
}

/** A preempted job waits since its last attempt ended. */
function waitingSince(job: Job): string {
  return job.attempt?.ended_at ?? job.submitted_at;
}
