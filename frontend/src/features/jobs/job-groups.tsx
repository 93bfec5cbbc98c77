import { useInfiniteQuery } from "@tanstack/react-query";
import { useState } from "react";

import { answerOf, api, cursorOf } from "@/api/client";
import type { JobGroup } from "@/api/schema";
import { count, counted, moment } from "@/components/format";
import { filtersOf, isFiltered, type JobSearch } from "@/components/job-search";
import { mayActAnywhere } from "@/components/roles";
import { useSession } from "@/components/session";
import { actionFilter, ActOnJobs } from "@/features/jobs/job-actions";
import { UnfoldedJobs } from "@/features/jobs/job-list";
import { type ColumnName, toggled } from "@/features/jobs/job-table";
import styles from "@/features/jobs/jobs-page.module.css";
import { countWords, StateBar, Unfold } from "@/features/jobs/state-counts";
import { DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { oneLine, Panel } from "@/ui/layout";

export const LABEL = "label:";
const REFETCH_MS = 10_000;

interface JobGroupsProps {
  search: JobSearch;
  by: string;
  columns: readonly ColumnName[];
}

/** The jobs of a search by what they have in common; each group unfolds to its jobs. */
export function JobGroups({ search, by, columns }: JobGroupsProps) {
  const me = useSession();
  const mayAct = mayActAnywhere(me);
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set());
  const filters = filtersOf(search);
  const query = useInfiniteQuery({
    queryKey: ["jobs", "groups", filters, by],
    queryFn: ({ pageParam: cursor, signal }) =>
      answerOf(api.GET("/jobs/groups", { params: { query: { ...filters, by, cursor } }, signal })),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    refetchInterval: REFETCH_MS,
  });
  return (
    <Panel flush>
      <DataTable
        label="Groups of jobs"
        rows={query.data?.pages.flatMap((page) => page.results)}
        rowKey={({ key }) => String(key)}
        below={({ key }) => {
          const jobs = key !== null && open.has(key) && jobsOf(search, by, key);
          return jobs && <UnfoldedJobs search={jobs} columns={columns} />;
        }}
        columns={[
          {
            header: "Group",
            isRowHeader: true,
            className: styles.name,
            cell: (group) => {
              const { key } = group;
              const jobs = key !== null && jobsOf(search, by, key);
              const name = nameOf(group, by);
              return (
                <>
                  {jobs && <Unfold name={name} isOpen={open.has(key)} onToggle={() => setOpen(toggled(open, key))} />}
                  {name}
                  {jobs && mayAct && <ActOnJobs filter={actionFilter(filtersOf(jobs))}>Change all</ActOnJobs>}
                </>
              );
            },
          },
          {
            header: "Jobs",
            cell: (group) => (
              <>
                {counted(group.jobs, "job")}: {countWords(group)}
                <StateBar counts={group} />
              </>
            ),
          },
          {
            header: "GPUs",
            isNumeric: true,
            className: oneLine,
            cell: (group) => `${count(group.gpus_running)} of ${count(group.gpus)} in use`,
          },
          { header: "First submitted", className: oneLine, cell: (group) => moment(group.first_submitted_at) },
          { header: "Last submitted", className: oneLine, cell: (group) => moment(group.last_submitted_at) },
        ]}
        query={query}
        empty={<EmptyState title={isFiltered(search) ? "No job matches these filters" : "No jobs yet"} />}
      />
    </Panel>
  );
}

function nameOf({ key, name }: JobGroup, by: string): string {
  if (by === "array") return key === null ? "In no array" : `${name}, array ${key}`;
  return key ?? `Without label ${by.slice(LABEL.length)}`;
}

/** The search for the jobs of a group; none where another value of the label is searched for already. */
function jobsOf(search: JobSearch, by: string, key: string): JobSearch | null {
  if (by === "array") return { ...search, array: key };
  if (by === "user") return { ...search, by: key };
  if (by === "tenant") return { ...search, tenant: key };
  return search.label ? null : { ...search, label: `${by.slice(LABEL.length)}=${key}` };
}
