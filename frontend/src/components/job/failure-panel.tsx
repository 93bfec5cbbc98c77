import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { ScrollText } from "lucide-react";

import { jobFailureQuery } from "@/api/failure-queries";
import type { Failure, Job } from "@/api/schema";
import { failureClass, moment, visible } from "@/components/format";
import styles from "@/components/job/failure-panel.module.css";
import { LastLines } from "@/components/job/last-lines";
import { Tag } from "@/components/state-badge";
import { buttonClass } from "@/ui/button";
import { ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { muted, Panel } from "@/ui/layout";

/** Why the job failed, what it wrote last, and what can be done about it. */
export function FailurePanel({ job }: { job: Job }) {
  const query = useQuery(jobFailureQuery(job.id));
  if (query.isPending) {
    return (
      <Panel title="Failure">
        <SkeletonLines count={5} />
      </Panel>
    );
  }
  if (query.isError) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  // Not every job that failed had an attempt that did.
  if (!query.data) return <Notice tone="failed">{visible(job.message) || ended(job.exit_code)}</Notice>;
  return <Found job={job} failure={query.data} />;
}

function Found({ job, failure }: { job: Job; failure: Failure }) {
  const rank = failure.rank ?? 0;
  return (
    <Panel
      title={`Failed: ${failure.says}`}
      className={styles.panel}
      actions={
        <Link to="/jobs/$id" params={{ id: String(job.id) }} search={{ tab: "log", rank }} className={buttonClass()}>
          <ScrollText size={15} aria-hidden />
          Open the log
        </Link>
      }
    >
      <div className={styles.failure}>
        <p className={styles.cause}>{visible(failure.message) || ended(failure.exit_code)}</p>
        {failure.advice && (
          <p>
            <strong>What to do:</strong> {visible(failure.advice)}
          </p>
        )}
        <p className={muted}>
          <Link to="/failures" search={{ failure: failure.failure }}>
            <Tag>{failureClass(failure.failure)}</Tag>
          </Link>{" "}
          {facts(failure)}
        </p>
        <LastLines job={job.id} attempt={failure.attempt} rank={rank} />
      </div>
    </Panel>
  );
}

function facts({ attempt, rank, nodes, exit_code: code, ended_at: at, rule }: Failure): string {
  const where = `${rank === null ? "" : `rank ${rank}, `}${nodes.join(", ")}`;
  const exit = code === null ? "" : `, exit code ${code}`;
  return `Attempt ${attempt} on ${where}, ${moment(at)}${exit}${rule ? `, by the rule ${rule}` : ""}`;
}

function ended(code: number | null): string {
  return `The job ended with exit code ${code ?? "unknown"}.`;
}
