import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { roundQuery } from "@/api/queries";
import type { Round, RoundAction } from "@/api/schema";
import { moment, words } from "@/components/format";
import { JobLinks } from "@/components/job-links";
import { PartBar } from "@/components/use-bar";
import { RoundBadge } from "@/features/rounds/round-badge";
import { DataTable } from "@/ui/data-table";
import { EmptyState, ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { Facts, PageLayout, Panel } from "@/ui/layout";
import styles from "@/features/rounds/rounds.module.css";

const route = getRouteApi("/rounds/$number");
/** What happens first to those who wait comes first; what stays as it is comes last. */
const KIND_ORDER = ["start", "move", "resize", "regrade", "stop", "keep"];

export function RoundPage() {
  const number = Number(route.useParams().number);
  const query = useQuery(roundQuery(number));
  if (!query.data) {
    return (
      <PageLayout title={`Round ${number}`}>
        {query.isError ? <ErrorNotice error={query.error} onRetry={() => void query.refetch()} /> : <SkeletonLines />}
      </PageLayout>
    );
  }
  const round = query.data;
  return (
    <PageLayout
      title={`Round ${number}`}
      lead={
        <>
          <RoundBadge round={round} />
          <span>{moment(round.started_at)}</span>
          <Link to="/rounds/$number" params={{ number: String(number - 1) }}>
            Previous
          </Link>
          <Link to="/rounds/$number" params={{ number: String(number + 1) }}>
            Next
          </Link>
        </>
      }
    >
      {round.error && <Notice tone="failed">{round.error}</Notice>}
      {Object.entries(round.degraded).map(([view, message]) => (
        <Notice key={view}>
          View {view} is degraded, {round.overran.includes(view) ? "and fifo decided" : "its jobs kept what they had"}:{" "}
          {message}
        </Notice>
      ))}
      <Panel title="Result">
        <Facts
          facts={[
            ["Started", round.started],
            ["Kept", round.kept],
            ["Stopped", round.stopped],
            ["Moved, of these", round.moved],
            ["Waiting", round.waiting],
            ["Dropped", round.dropped.length],
          ]}
        />
      </Panel>
      <Timings round={round} />
      {round.dropped.length > 0 && (
        <Panel title="Dropped, because facts changed between snapshot and application">
          <ul className={styles.list}>
            {round.dropped.map((dropped, index) => (
              <li key={index}>
                {words(dropped.kind)} {dropped.jobs.length > 0 ? "of " : "at the market"}
                <JobLinks ids={dropped.jobs} />: {dropped.why}
              </li>
            ))}
          </ul>
        </Panel>
      )}
      <Actions round={round} />
    </PageLayout>
  );
}

function Timings({ round }: { round: Round }) {
  const phases = Object.entries(round.timings_ms);
  const longest = Math.max(1, ...phases.map(([, milliseconds]) => milliseconds));
  return (
    <Panel title="Time taken">
      <ul className={styles.phases}>
        {phases.map(([phase, milliseconds]) => (
          <li key={phase}>
            <span>{words(phase)}</span>
            <PartBar part={milliseconds / longest} />
            <span>{milliseconds.toFixed(1)} ms</span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

/** Why a round has no actions, as its counts have it. */
function whyNothing({ state, kept, waiting }: Round): string {
  // Then its counts say nothing of what ran and waited.
  if (state !== "applied") return "The round was not applied, so every job stayed as it was.";
  const ran = kept > 0 ? "Running jobs kept what they had" : "No job was running";
  return `${ran}, and ${waiting > 0 ? "no waiting job could start" : "no job was waiting"}.`;
}

function Actions({ round }: { round: Round & { actions: readonly RoundAction[] } }) {
  const ordered = [...round.actions].sort((a, b) => KIND_ORDER.indexOf(a.kind) - KIND_ORDER.indexOf(b.kind));
  return (
    <Panel title="Actions" flush>
      <DataTable
        label="Actions of the round"
        rows={ordered}
        rowKey={({ kind, jobs }) => `${kind} ${jobs.join(" ")}`}
        empty={<EmptyState title="Nothing changed">{whyNothing(round)}</EmptyState>}
        columns={[
          { header: "Action", cell: ({ kind }) => words(kind) },
          { header: "Job", cell: ({ jobs }) => <JobLinks ids={jobs} /> },
          {
            header: "Virtual cluster",
            cell: (action) => `${action.virtual_cluster}${action.guaranteed ? "" : ", opportunistic"}`,
          },
          {
            header: "GPUs",
            cell: ({ gpu_model: model, gpus }) => (model ? `${gpus.length} × ${model}` : ""),
          },
          { header: "Why", cell: ({ message, cause }) => message || words(cause) },
        ]}
      />
    </Panel>
  );
}
