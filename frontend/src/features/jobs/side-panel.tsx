import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { X } from "lucide-react";
import { Dialog } from "radix-ui";
import { type ReactNode, useEffect, useRef } from "react";

import { jobQuery } from "@/api/queries";
import type { Job } from "@/api/schema";
import { failureClass, moment, visible } from "@/components/format";
import { gpusNow, modelText } from "@/components/gpu-amount";
import { descriptionFacts } from "@/components/job/description";
import { FailurePanel } from "@/components/job/failure-panel";
import { JobActions } from "@/components/job/job-actions";
import { LastLines } from "@/components/job/last-lines";
import { Requeue } from "@/components/job/requeue";
import { WaitingPanel } from "@/components/job/waiting-panel";
import { JobMaintenanceNotice } from "@/components/maintenance-notice";
import { Badge, jobLook } from "@/components/state-badge";
import { RunTime } from "@/features/jobs/job-table";
import styles from "@/features/jobs/side-panel.module.css";
import { useNewestOne } from "@/live/live";
import { IconButton } from "@/ui/button";
import { ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { Facts, Panel, Row } from "@/ui/layout";
import { useIsNarrow } from "@/ui/narrow";

interface SidePanelProps {
  /** The job's number. */
  job: number;
  /** How often it was entered by the keyboard: with each time the focus comes here. */
  entered: number;
  onClose: () => void;
}

/**
 * What one wants to know of a job while one goes through the list, and what can be done to it.
 *
 * Beside the list it leaves the focus where it is, so that the arrow keys go on from row to row; over the list, on a
 * narrow screen, it keeps the focus. Once closed the focus is on the job's row.
 */
export function SidePanel({ job: id, entered, onClose }: SidePanelProps) {
  const isNarrow = useIsNarrow();
  const content = useRef<HTMLDivElement>(null);
  const query = useQuery(jobQuery(id));
  const job = useNewestOne("job", query.data);
  useEffect(() => {
    if (entered > 0) content.current?.focus();
  }, [entered]);
  // While it closes the address does not name it any more.
  const shown = useRef(id);
  useEffect(() => {
    shown.current = id;
  }, [id]);
  const focusRow = () => {
    const isFree = document.activeElement === null || document.activeElement === document.body;
    if (isFree) document.querySelector<HTMLElement>(`[data-row="${shown.current}"]`)?.focus();
  };
  return (
    <Dialog.Root open modal={isNarrow} onOpenChange={(isOpen) => !isOpen && onClose()}>
      <Dialog.Content
        ref={content}
        className={styles.panel}
        aria-describedby={undefined}
        onOpenAutoFocus={(event) => !isNarrow && event.preventDefault()}
        onInteractOutside={(event) => event.preventDefault()}
        onCloseAutoFocus={(event) => {
          event.preventDefault();
          focusRow();
        }}
      >
        <div className={styles.head}>
          <Dialog.Title>{job?.name ?? `Job ${id}`}</Dialog.Title>
          <Dialog.Close asChild>
            <IconButton label="Close" icon={<X size={16} />} />
          </Dialog.Close>
        </div>
        {query.error && !job && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
        {query.isPending && !job && <SkeletonLines count={8} />}
        {job && <JobSummary key={job.id} job={job} />}
      </Dialog.Content>
    </Dialog.Root>
  );
}

function JobSummary({ job }: { job: Job }) {
  const { attempt, state } = job;
  return (
    <>
      <Row>
        <Badge look={jobLook(job)} />
        <span>#{job.id}</span>
        <PageLink job={job}>Whole page</PageLink>
        <PageLink job={job} tab="log">
          Log
        </PageLink>
        <PageLink job={job} tab="metrics">
          Metrics
        </PageLink>
        <PageLink job={job} tab="spec">
          Specification
        </PageLink>
      </Row>
      <Row>
        <Requeue job={job} />
        <JobActions job={job} />
      </Row>
      {state === "failed" && <FailurePanel job={job} />}
      {(job.held || state === "cancelled") && job.message && <Notice>{visible(job.message)}</Notice>}
      <JobMaintenanceNotice job={job} />
      {state === "queued" && <WaitingPanel job={job} />}
      <Panel title="Facts">
        <Facts facts={factsOf(job)} />
      </Panel>
      {/* What failed shows them with the failure. */}
      {attempt && state !== "failed" && (
        <Panel title={`Last lines of attempt ${attempt.number}`}>
          <LastLines job={job.id} attempt={attempt.number} rank={0} isRunning={attempt.state !== "ended"} />
        </Panel>
      )}
    </>
  );
}

function PageLink({ job, tab, children }: { job: Job; tab?: string; children: ReactNode }) {
  return (
    <Link to="/jobs/$id" params={{ id: String(job.id) }} search={tab ? { tab } : {}}>
      {children}
    </Link>
  );
}

function factsOf(job: Job): [string, ReactNode][] {
  const { attempt } = job;
  return [
    ...descriptionFacts(job),
    ["User", job.submitted_by],
    ["Tenant", job.tenant],
    ["Virtual cluster", job.virtual_cluster],
    ["GPUs", job.gpus > 0 ? `${gpusNow(job)} × ${modelText(job)}` : "none"],
    ["Run time", <RunTime key="run-time" job={job} />],
    ["Attempts", String(job.attempts)],
    ["Preemptions", String(job.preemptions)],
    ...(job.state === "failed" && attempt?.failure
      ? ([["Failure", failureClass(attempt.failure)]] satisfies [string, ReactNode][])
      : []),
    ["Submitted", moment(job.submitted_at)],
    ["Ended", moment(job.ended_at)],
  ];
}
