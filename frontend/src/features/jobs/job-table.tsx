import { Link } from "@tanstack/react-router";

import type { Job } from "@/api/schema";
import { duration, moment, secondsBetween } from "@/components/format";
import { useNow } from "@/components/now";
import { Badge, jobLook, Tag } from "@/components/state-badge";
import { DataTable, type Column, type DataTableProps } from "@/ui/data-table";
import { Checkbox } from "@/ui/field";
import { oneLine } from "@/ui/layout";
import styles from "@/features/jobs/jobs-page.module.css";

interface JobTableProps extends Pick<DataTableProps<Job>, "query" | "empty" | "skeletonLines"> {
  jobs: readonly Job[];
  selected: ReadonlySet<number>;
  onSelect: (selected: ReadonlySet<number>) => void;
}

export function JobTable({ jobs, selected, onSelect, ...rest }: JobTableProps) {
  const open = jobs.filter((job) => job.ended_at === null);
  const toggle = (id: number) => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    onSelect(next);
  };
  const selection: Column<Job> = {
    id: "selection",
    header: (
      <Checkbox
        label="Select all that have not ended"
        bare
        disabled={open.length === 0}
        checked={open.length > 0 && open.every((job) => selected.has(job.id))}
        onChange={(event) => onSelect(new Set(event.target.checked ? open.map((job) => job.id) : []))}
      />
    ),
    cell: (job) => (
      <Checkbox
        label={`Select ${job.name}`}
        bare
        checked={selected.has(job.id)}
        disabled={job.ended_at !== null}
        onChange={() => toggle(job.id)}
      />
    ),
  };
  return (
    <DataTable
      label="Jobs"
      rows={jobs}
      rowKey={({ id }) => id}
      rowAttributes={({ id }) => ({ "data-selected": selected.has(id) || undefined })}
      columns={[selection, ...COLUMNS]}
      {...rest}
    />
  );
}

const COLUMNS: readonly Column<Job>[] = [
  {
    header: "Job",
    isRowHeader: true,
    className: styles.name,
    cell: (job) => (
      <>
        <Link to="/jobs/$id" params={{ id: String(job.id) }}>
          {job.name}
        </Link>{" "}
        <span className={styles.id}>#{job.id}</span>{" "}
        {job.priority !== 0 && <Tag title="Higher goes first">priority {job.priority}</Tag>}
        <span className={styles.narrow}>
          <Badge look={jobLook(job)} />
        </span>
        <p className={styles.note}>{noteOf(job)}</p>
      </>
    ),
  },
  {
    header: "State",
    headerClassName: styles.wide,
    className: styles.wide,
    cell: (job) => <Badge look={jobLook(job)} />,
  },
  { header: "In state", className: oneLine, cell: (job) => <TimeInState job={job} /> },
  {
    header: "GPUs",
    isNumeric: true,
    className: oneLine,
    cell: (job) => (
      <>
        {gpusOf(job)} <span className={styles.id}>{job.attempt?.gpu_model ?? job.gpu_models.join(" or ")}</span>
      </>
    ),
  },
  { header: "Tenant", cell: ({ tenant }) => tenant },
  {
    header: "Virtual cluster",
    className: oneLine,
    cell: (job) => (
      <>
        {job.virtual_cluster}
        {job.guarantee === "opportunistic" && <p className={styles.id}>opportunistic</p>}
      </>
    ),
  },
  { header: "Submitted", className: oneLine, cell: (job) => moment(job.submitted_at) },
];

/** The GPUs that it asks for; of an elastic job that runs those that it has, and its range: `3 (1-4)`. */
function gpusOf({ gpus, spec, state, attempt }: Job): string {
  const has = attempt?.placement.reduce((sum, part) => sum + part.gpus.length, 0) ?? 0;
  if (!spec.elastic || state !== "running" || has === 0) return String(gpus);
  return `${has} (${spec.elastic.min_gpus ?? gpus}-${spec.elastic.max_gpus ?? gpus})`;
}

/** The one thing to know about a job beyond its state. */
function noteOf(job: Job): string {
  if (job.state === "queued") {
    const place = job.position === null ? "" : `No. ${job.position}. `;
    return place + (job.reasons[0]?.message ?? "");
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

/** A preempted job waits since its last attempt ended. */
function waitingSince(job: Job): string {
  return job.attempt?.ended_at ?? job.submitted_at;
}
