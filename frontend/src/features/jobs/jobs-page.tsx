import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useCallback, useState } from "react";

import { cursorOf } from "@/api/client";
import { jobsQuery } from "@/api/queries";
import { filtersOf, type JobSearch } from "@/components/job-search";
import { CancelSelected } from "@/features/jobs/cancel-jobs";
import { JobFilterBar } from "@/features/jobs/filter-bar";
import { JobTable } from "@/features/jobs/job-table";
import { useNewest } from "@/live/live";
import { Button, buttonClass } from "@/ui/button";
import { EmptyState } from "@/ui/feedback";
import { PageLayout, Panel } from "@/ui/layout";
import styles from "@/features/jobs/jobs-page.module.css";

const route = getRouteApi("/jobs");

export function JobsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const change = useCallback(
    (changed: Partial<JobSearch>) => void navigate({ search: (now) => ({ ...now, ...changed }), replace: true }),
    [navigate],
  );
  const clear = () => void navigate({ search: {}, replace: true });
  return (
    <PageLayout title="Jobs">
      <JobFilterBar search={search} onChange={change} onClear={clear} />
      {/* Another filter is another list: it starts at its first page with nothing selected. */}
      <JobList key={JSON.stringify(search)} search={search} onClear={clear} />
    </PageLayout>
  );
}

function JobList({ search, onClear }: { search: JobSearch; onClear: () => void }) {
  const [cursors, setCursors] = useState<string[]>([]);
  const [selected, setSelected] = useState<ReadonlySet<number>>(new Set());
  const list = useQuery(jobsQuery({ ...filtersOf(search), fold: !search.array }, cursors.at(-1)));
  const jobs = useNewest("job", list.data?.results);
  const next = cursorOf(list.data?.next ?? null);
  return (
    <Panel flush>
      {selected.size > 0 && (
        <CancelSelected jobs={jobs.filter((job) => selected.has(job.id))} onDone={() => setSelected(new Set())} />
      )}
      <JobTable
        jobs={jobs}
        selected={selected}
        onSelect={setSelected}
        query={list}
        skeletonLines={10}
        empty={<Nothing isFiltered={Object.keys(search).length > 0} onClear={onClear} />}
      />
      {(cursors.length > 0 || next) && (
        <nav className={styles.pager} aria-label="Pages">
          <Button disabled={cursors.length === 0} onClick={() => setCursors(cursors.slice(0, -1))}>
            Newer
          </Button>
          <span>Page {cursors.length + 1}</span>
          <Button disabled={!next} onClick={() => next && setCursors([...cursors, next])}>
            Older
          </Button>
        </nav>
      )}
    </Panel>
  );
}

function Nothing({ isFiltered, onClear }: { isFiltered: boolean; onClear: () => void }) {
  if (isFiltered) {
    return (
      <EmptyState title="No job matches these filters" action={<Button onClick={onClear}>Clear filters</Button>} />
    );
  }
  return (
    <EmptyState
      title="No jobs yet"
      action={
        <Link to="/submit" className={buttonClass("primary")}>
          Submit a job
        </Link>
      }
    >
      Submitted jobs appear here with their state, reason and run time.
    </EmptyState>
  );
}
