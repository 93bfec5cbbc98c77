import { Link } from "@tanstack/react-router";

import type { JobTargets } from "@/api/schema";
import { percent } from "@/components/throughputs/sources";
import { Tag } from "@/components/state-badge";
import { isLeftOver } from "@/features/targets/shares";
import { DataTable, type Column, type DataTableProps } from "@/ui/data-table";
import { muted, oneLine } from "@/ui/layout";
import styles from "@/features/targets/targets.module.css";

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
              {isLeftOver(job) && <Tag title="It takes what others leave">left-overs</Tag>}
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
