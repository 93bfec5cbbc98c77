import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { cursorOf } from "@/api/client";
import { type JobOrder, jobsQuery } from "@/api/queries";
import { counted } from "@/components/format";
import { filtersOf, isFiltered, type JobSearch } from "@/components/job-search";
import { mayActAnywhere } from "@/components/roles";
import { useSession } from "@/components/session";
import { ActOnJobs } from "@/features/jobs/job-actions";
import { type ColumnName, JobTable, toggled } from "@/features/jobs/job-table";
import { useNewest } from "@/live/live";
import { Button, buttonClass } from "@/ui/button";
import { EmptyState } from "@/ui/feedback";
import { Panel } from "@/ui/layout";
import styles from "@/features/jobs/jobs-page.module.css";

/** Fewer have nothing to be compared with, and the curves of more look alike. */
const COMPARED_LEAST = 2;
const COMPARED_MOST = 8;

interface JobListProps {
  search: JobSearch;
  columns: readonly ColumnName[];
  onSort: (sort: string | undefined) => void;
  onClear?: () => void;
}

/** The jobs of a search, page by page; an array is one row that unfolds to its tasks. */
export function JobList({ search, columns, onSort, onClear }: JobListProps) {
  const [cursors, setCursors] = useState<string[]>([]);
  const [selected, setSelected] = useState<ReadonlySet<number>>(new Set());
  // An address may hold anything; the server says what it does not know.
  const sort = search.sort as JobOrder;
  const list = useQuery(jobsQuery({ ...filtersOf(search), fold: !search.array }, sort, cursors.at(-1)));
  const jobs = useNewest("job", list.data?.results);
  const [unfolded, setUnfolded] = useState<ReadonlySet<number>>(new Set());
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
        isFolded={!search.array}
        unfolded={unfolded}
        onUnfold={(array) => setUnfolded(toggled(unfolded, array))}
        below={({ array }) =>
          array &&
          unfolded.has(array.number) && <UnfoldedJobs search={{ array: String(array.number) }} columns={columns} />
        }
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

/** The jobs that a row stands for, in an order of their own. */
export function UnfoldedJobs({ search, columns }: Pick<JobListProps, "search" | "columns">) {
  const [sort, setSort] = useState<string | undefined>(search.array && "submitted");
  return <JobList key={sort} search={{ ...search, sort }} columns={columns} onSort={setSort} />;
}

function Selection({ ids, onClear }: { ids: readonly number[]; onClear: () => void }) {
  return (
    <div className={styles.selection}>
      <span>{counted(ids.length, "job")} selected</span>
      <ActOnJobs filter={{ id: ids.join(",") }} onDone={onClear}>
        Change the selected
      </ActOnJobs>
      {ids.length >= COMPARED_LEAST && ids.length <= COMPARED_MOST ? (
        <Link to="/compare" search={{ jobs: ids.join(",") }} className={buttonClass()}>
          Compare
        </Link>
      ) : (
        <Button disabled title={`${COMPARED_LEAST} to ${COMPARED_MOST} jobs can be compared.`}>
          Compare
        </Button>
      )}
      <Button look="quiet" onClick={onClear}>
        Clear selection
      </Button>
    </div>
  );
}

function Nothing({ isFiltered, onClear }: { isFiltered: boolean; onClear: (() => void) | undefined }) {
  const maySubmit = mayActAnywhere(useSession());
  if (isFiltered) {
    return (
      <EmptyState
        title="No job matches these filters"
        action={onClear && <Button onClick={onClear}>Clear filters</Button>}
      />
    );
  }
  return (
    <EmptyState
      title="No jobs yet"
      action={
        maySubmit && (
          <Link to="/submit" className={buttonClass("primary")}>
            Submit a job
          </Link>
        )
      }
    >
      Submitted jobs appear here with their state, reason and run time.
    </EmptyState>
  );
}
