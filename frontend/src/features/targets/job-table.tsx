import { Link } from "@tanstack/react-router";

import type { JobTargets } from "@/api/speed-types";
import { percent } from "@/components/speeds/sources";
import { Tag } from "@/components/state-badge";
import { isLeftOver } from "@/features/targets/shares";
import { muted, numeric, oneLine, TableFrame } from "@/ui/layout";
import styles from "@/features/targets/targets.module.css";

/** Jobs by GPU models: what each shall have, and what it had. */
export function JobTable({ jobs, models }: { jobs: readonly JobTargets[]; models: readonly string[] }) {
  return (
    <TableFrame label="Targets by job">
      <thead>
        <tr>
          <th>Job</th>
          <th>Kind</th>
          <th className={numeric}>GPUs</th>
          <th>Runs on</th>
          {models.map((model) => (
            <th key={model}>{model}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {jobs.map((job) => (
          <tr key={job.job}>
            <td>
              <Link to="/jobs/$id" params={{ id: String(job.job) }}>
                {job.name}
              </Link>{" "}
              <span className={muted}>{job.tenant}</span>{" "}
              {isLeftOver(job) && <Tag title="It takes what others leave">left-overs</Tag>}
            </td>
            <td>{job.application || <span className={muted}>by name</span>}</td>
            <td className={numeric}>{job.gpus}</td>
            <td className={oneLine}>{job.gpu_model ?? <span className={muted}>waits</span>}</td>
            {models.map((model) => (
              <td key={model} className={styles.cell} data-here={job.gpu_model === model || undefined}>
                <Share target={job.targets[model] ?? 0} received={job.received[model] ?? 0} />
              </td>
            ))}
          </tr>
        ))}
      </tbody>
    </TableFrame>
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
