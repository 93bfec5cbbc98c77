import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";
import { useCallback, useState } from "react";

import { cursorOf } from "@/api/client";
import { type JobOrder, jobsQuery } from "@/api/queries";
import { filtersOf, isFiltered, type JobSearch } from "@/components/job-search";
import { ColumnChooser, useColumns } from "@/features/jobs/columns";
import { JobFilterBar } from "@/features/jobs/filter-bar";
import { ActOnJobs } from "@/features/jobs/job-actions";
import { type ColumnName, JobTable } from "@/features/jobs/job-table";
import { SavedSearches } from "@/features/jobs/saved-searches";
import { counted } from "@/components/format";
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
  const [columns, setColumns] = useColumns();
  return (
    <PageLayout title="Jobs">
      <JobFilterBar search={search} onChange={change} onClear={clear}>
        <SavedSearches search={search} />
        <ColumnChooser shown={columns} onChange={setColumns} />
      </JobFilterBar>
      {/* Another filter is another list: it starts at its first page with nothing selected. */}
      <JobList
        key={JSON.stringify(search)}
        search={search}
        columns={columns}
        onSort={(sort) => change({ sort })}
        onClear={clear}
      />
    </PageLayout>
  );
}

interface JobListProps {
  search: JobSearch;
  columns: readonly ColumnName[];
  onSort: (sort: string | undefined) => void;
  onClear: () => void;
}

function JobList({ search, columns, onSort, onClear }: JobListProps) {
  const [cursors, setCursors] = useState<string[]>([]);
  const [selected, setSelected] = useState<ReadonlySet<number>>(new Set());
  // An address may hold anything; the server says what it does not know.
  const sort = search.sort as JobOrder;
  const list = useQuery(jobsQuery({ ...filtersOf(search), fold: !search.array }, sort, cursors.at(-1)));
  const jobs = useNewest("job", list.data?.results);
  const next = cursorOf(list.data?.next ?? null);
  return (
    <Panel flush>
      {selected.size > 0 && <Selection ids={[...selected]} onClear={() => setSelected(new Set())} />}
      <JobTable
        jobs={jobs}
        shown={columns}
        order={{ value: search.sort, onChange: onSort }}
        selected={selected}
        onSelect={setSelected}
        query={list}
        skeletonLines={10}
        empty={<Nothing isFiltered={isFiltered(search)} onClear={onClear} />}
      />
      {(cursors.length > 0 || next) && (
        <nav className={styles.pager} aria-label="Pages">
          <Button disabled={cursors.length === 0} onClick={() => setCursors(cursors.slice(0, -1))}>
            {search.sort ? "Previous" : "Newer"}
          </Button>
          <span>Page {cursors.length + 1}</span>
          <Button disabled={!next} onClick={() => next && setCursors([...cursors, next])}>
            {search.sort ? "Next" : "Older"}
          </Button>
        </nav>
      )}
    </Panel>
  );
}

function Selection({ ids, onClear }: { ids: readonly number[]; onClear: () => void }) {
  return (
    <div className={styles.selection}>
      <span>{counted(ids.length, "job")} selected</span>
      <ActOnJobs filter={{ id: ids.join(",") }} onDone={onClear}>
        Change the selected
      </ActOnJobs>
      <Button look="quiet" onClick={onClear}>
        Clear selection
      </Button>
    </div>
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
