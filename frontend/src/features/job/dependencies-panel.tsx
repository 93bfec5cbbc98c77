import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useEffect } from "react";

import { dependenciesQuery } from "@/api/queries";
import type { Dependency, Job } from "@/api/schema";
import { count } from "@/components/format";
import { ErrorNotice } from "@/ui/feedback";
import { Facts, Panel } from "@/ui/layout";
import styles from "@/features/job/job-page.module.css";

const LOOK_AGAIN_MS = 10_000;

const WISHES: Record<Dependency["when"], string> = {
  succeeded: "to succeed",
  ended: "to end",
  failed: "to fail",
  started: "to start",
};

/** Which other jobs a job waits for, and which wait for it; nothing where there are none. */
export function DependenciesPanel({ job }: { job: Job }) {
  const query = useQuery({ ...dependenciesQuery(job.id), refetchInterval: job.ended_at ? false : LOOK_AGAIN_MS });
  const { refetch } = query;
  useEffect(() => void refetch(), [job.version, refetch]);
  if (query.isError) {
    return (
      <Panel title="Other jobs">
        <ErrorNotice error={query.error} onRetry={() => void refetch()} />
      </Panel>
    );
  }
  const { waits_for = [], awaited_by = [], awaited_by_count = 0 } = query.data ?? {};
  if (waits_for.length === 0 && awaited_by.length === 0) return null;
  const facts = [
    ["It waits for", waits_for],
    [awaited_by_count > awaited_by.length ? `${count(awaited_by_count)} wait for it` : "Waiting for it", awaited_by],
  ] as const;
  return (
    <Panel title="Other jobs">
      <Facts
        className={styles.others}
        facts={facts
          .filter(([, others]) => others.length > 0)
          .map(([label, others]) => [label, <Others key={label} others={others} isAwaited={others === waits_for} />])}
      />
    </Panel>
  );
}

function Others({ others, isAwaited }: { others: readonly Dependency[]; isAwaited: boolean }) {
  return others.map((one) => (
    <div key={`${one.job} ${one.when}`}>
      <Link to="/jobs/$id" params={{ id: String(one.job) }}>
        job {one.job} {one.name}
      </Link>{" "}
      {isAwaited ? WISHES[one.when] : `for it ${WISHES[one.when]}`}: {outcome(one, isAwaited)}
    </div>
  ));
}

/** Where it stands with what is awaited: `it is running`, `done`, `it never will`. */
function outcome(one: Dependency, isAwaited: boolean): string {
  if (one.state === "met") return "done";
  if (one.state === "never") return "it never will";
  return isAwaited ? `it is ${one.job_state}` : one.job_state;
}
