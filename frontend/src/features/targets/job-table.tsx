import { Link } from "@tanstack/react-router";

import type { JobTargets, TenantTargets } from "@/api/schema";
import { count } from "@/components/format";
import { Tag } from "@/components/state-badge";
import { percent } from "@/components/throughputs/sources";
import styles from "@/features/targets/targets.module.css";
import { type Column, DataTable, type DataTableProps } from "@/ui/data-table";
import { muted, oneLine } from "@/ui/layout";

interface JobTableProps extends Pick<DataTableProps<JobTargets>, "query" | "empty" | "skeletonLines"> {
  jobs: readonly JobTargets[];
  models: readonly string[];
}

/** Jobs by GPU models: what each shall have, and what it had. */
export function JobTable({ jobs, models, ...rest }: JobTableProps) {
  return (
    <DataTable
      label="Targets by job"
      rows={jobs}
      rowKey={({ job }) => job}
      columns={[
        {
          header: "Job",
          isRowHeader: true,
          cell: (job) => (
            <>
              <Link to="/jobs/$id" params={{ id: String(job.job) }}>
                {job.name}
              </Link>{" "}
              <span className={muted}>{job.tenant}</span>{" "}
              {isLeftOver(job) && <Tag title="Uses GPUs that other jobs leave">left-overs</Tag>}
            </>
          ),
        },
        { header: "Application", cell: ({ application }) => application || <span className={muted}>by name</span> },
        { header: "GPUs", isNumeric: true, cell: ({ gpus }) => gpus },
        {
          header: "Runs on",
          className: oneLine,
          cell: ({ gpu_model: model }) => model ?? <span className={muted}>waits</span>,
        },
        ...models.map((model): Column<JobTargets> => ({
          id: `model ${model}`,
          header: model,
          className: styles.cell,
          attributes: ({ gpu_model: current }) => ({ "data-here": current === model || undefined }),
          cell: ({ targets, received }) => <Share target={targets[model] ?? 0} received={received[model] ?? 0} />,
        })),
      ]}
      {...rest}
    />
  );
}

function Share({ target, received }: { target: number; received: number }) {
  return (
    <span className={styles.share}>
      <span>
        {percent(target)} <span className={muted}>had {percent(received)}</span>
      </span>
      <span className={styles.track} aria-hidden>
        <span className={styles.target} style={{ width: `${Math.min(1, target) * 100}%` }} />
        <span className={styles.received} style={{ left: `${Math.min(1, received) * 100}%` }} />
      </span>
    </span>
  );
}

/** Below this a share is nothing one could see. */
const NEGLIGIBLE = 0.005;

/** GPU models that are guaranteed or meant for somebody. */
export function modelsOf(guaranteed: Readonly<Record<string, number>>, tenants: readonly TenantTargets[]): string[] {
  const meant = tenants.flatMap(({ gpus }) => Object.keys(gpus));
  return [...new Set([...Object.keys(guaranteed), ...meant])].sort();
}

/** GPUs of a model that are meant for all tenants together, on average. */
export function meantFor(tenants: readonly TenantTargets[], model: string): number {
  return tenants.reduce((sum, { gpus }) => sum + (gpus[model] ?? 0), 0);
}

/** "1.3", and nothing for next to nothing. */
export function gpusText(gpus: number | undefined): string {
  return gpus === undefined || gpus < NEGLIGIBLE ? "–" : count(gpus);
}

/** Whether a job has no time of its own on any model, and only takes what others leave. */
export function isLeftOver({ targets }: JobTargets): boolean {
  return Object.values(targets).every((share) => share < NEGLIGIBLE);
}
