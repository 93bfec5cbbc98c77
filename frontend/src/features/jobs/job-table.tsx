import { Link } from "@tanstack/react-router";

import type { Job } from "@/api/types";
import { duration, moment, secondsBetween } from "@/components/format";
import { useNow } from "@/components/now";
import { Badge, jobLook, Tag } from "@/components/state-badge";
import { Checkbox } from "@/ui/field";
import { numeric, oneLine, TableFrame } from "@/ui/layout";
import styles from "@/features/jobs/jobs-page.module.css";

interface JobTableProps {
  jobs: readonly Job[];
  selected: ReadonlySet<number>;
  onSelect: (selected: ReadonlySet<number>) => void;
}

export function JobTable({ jobs, selected, onSelect }: JobTableProps) {
  const open = jobs.filter((job) => job.ended_at === null);
  const toggle = (id: number) => {
    const next = new Set(selected);
    if (!next.delete(id)) next.add(id);
    onSelect(next);
  };
  return (
    <TableFrame label="Jobs">
      <thead>
        <tr>
          <th>
            <Checkbox
              label="Select all that have not ended"
              bare
              disabled={open.length === 0}
              checked={open.length > 0 && open.every((job) => selected.has(job.id))}
              onChange={(event) => onSelect(new Set(event.target.checked ? open.map((job) => job.id) : []))}
            />
          </th>
          <th>Job</th>
          <th className={styles.wide}>State</th>
          <th>In state</th>
          <th className={numeric}>GPUs</th>
          <th>Tenant</th>
          <th>Virtual cluster</th>
          <th>Submitted</th>
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <JobRow key={job.id} job={job} selected={selected.has(job.id)} onToggle={() => toggle(job.id)} />
        ))}
      </tbody>
    </TableFrame>
  );
}

function JobRow({ job, selected, onToggle }: { job: Job; selected: boolean; onToggle: () => void }) {
  return (
    <tr data-selected={selected || undefined}>
      <td>
        <Checkbox
          label={`Select ${job.name}`}
          bare
          checked={selected}
          disabled={job.ended_at !== null}
          onChange={onToggle}
        />
      </td>
      <td className={styles.name}>
        <Link to="/jobs/$id" params={{ id: String(job.id) }}>
          {job.name}
        </Link>{" "}
        <span className={styles.id}>#{job.id}</span>{" "}
        {job.priority !== 0 && <Tag title="Higher goes first">priority {job.priority}</Tag>}
        <span className={styles.narrow}>
          <Badge look={jobLook(job)} />
        </span>
        <p className={styles.note}>{noteOf(job)}</p>
      </td>
      <td className={styles.wide}>
        <Badge look={jobLook(job)} />
      </td>
      <td className={oneLine}>
        <TimeInState job={job} />
      </td>
      <td className={`${numeric} ${oneLine}`}>
        {job.gpus} <span className={styles.id}>{job.attempt?.gpu_model ?? job.gpu_models.join(" or ")}</span>
      </td>
      <td>{job.tenant}</td>
      <td className={oneLine}>
        {job.virtual_cluster}
        {job.guarantee === "opportunistic" && <p className={styles.id}>opportunistic</p>}
      </td>
      <td className={oneLine}>{moment(job.submitted_at)}</td>
    </tr>
  );
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
