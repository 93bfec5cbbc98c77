import { getRouteApi } from "@tanstack/react-router";
import { useCallback, useMemo, useState } from "react";

import type { Job } from "@/api/schema";
import { FileLinks } from "@/components/file-links";
import { filtersOf, type JobSearch } from "@/components/job-search";
import { ColumnChooser, useColumns } from "@/features/jobs/columns";
import { JobFilterBar } from "@/features/jobs/filter-bar";
import { actionFilter } from "@/features/jobs/job-actions";
import { JobGroups, LABEL } from "@/features/jobs/job-groups";
import { JobList } from "@/features/jobs/job-list";
import { ChosenJob } from "@/features/jobs/job-table";
import styles from "@/features/jobs/jobs-page.module.css";
import { Button } from "@/ui/button";
import { Skeleton } from "@/ui/feedback";
import { PageLayout } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";

// Loaded with the first job that is chosen.
const SidePanel = onDemand(
  async () => (await import("@/features/jobs/side-panel")).SidePanel,
  <Skeleton height="20rem" />,
);
const SavedSearches = onDemand(async () => (await import("@/features/jobs/saved-searches")).SavedSearches);

const route = getRouteApi("/jobs");

export function JobsPage() {
  const { job, ...search } = route.useSearch();
  const navigate = route.useNavigate();
  const change = useCallback(
    (changed: Partial<JobSearch>) => void navigate({ search: (now) => ({ ...now, ...changed }), replace: true }),
    [navigate],
  );
  const clear = () => void navigate({ search: {}, replace: true });
  const [columns, setColumns] = useColumns();
  const [isSaving, setSaving] = useState(false);
  // How often a job was entered by the keyboard: each time the focus goes to the panel.
  const [entered, setEntered] = useState(0);
  const choice = useMemo(
    () => ({
      chosen: job,
      onChoose: ({ id }: Job, isEntered: boolean) => {
        if (isEntered) setEntered((times) => times + 1);
        // The way back leads past the panel, not through all jobs that it has shown.
        void navigate({ search: (now) => ({ ...now, job: id }), replace: job !== undefined });
      },
    }),
    [job, navigate],
  );
  const close = () => {
    setEntered(0);
    void navigate({ search: (now) => ({ ...now, job: undefined }), replace: true });
  };
  return (
    <PageLayout title="Jobs" actions={<FileLinks address={exportAddress(search)} />}>
      <JobFilterBar search={search} onChange={change} onClear={clear}>
        <Button look="quiet" onClick={() => setSaving(true)}>
          Saved searches
        </Button>
        <ColumnChooser shown={columns} onChange={setColumns} />
      </JobFilterBar>
      {isSaving && <SavedSearches search={search} onClose={() => setSaving(false)} />}
      <div className={job === undefined ? undefined : styles.beside}>
        <ChosenJob value={choice}>
          {/* Another filter is another list: it starts at its first page with nothing selected. */}
          {search.group && search.group !== LABEL ? (
            <JobGroups key={JSON.stringify(search)} search={search} by={search.group} columns={columns} />
          ) : (
            <JobList
              key={JSON.stringify(search)}
              search={search}
              columns={columns}
              onSort={(sort) => change({ sort })}
              onClear={clear}
            />
          )}
        </ChosenJob>
        {job !== undefined && <SidePanel job={job} entered={entered} onClose={close} />}
      </div>
    </PageLayout>
  );
}

/** The jobs of a search as a file. */
function exportAddress(search: JobSearch): string {
  return `/api/v1/jobs/export?${new URLSearchParams(actionFilter(filtersOf(search))).toString()}`;
}
