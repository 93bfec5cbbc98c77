import { getRouteApi } from "@tanstack/react-router";
import { useCallback } from "react";

import type { JobSearch } from "@/components/job-search";
import { ColumnChooser, useColumns } from "@/features/jobs/columns";
import { JobFilterBar } from "@/features/jobs/filter-bar";
import { JobGroups, LABEL } from "@/features/jobs/job-groups";
import { JobList } from "@/features/jobs/job-list";
import { SavedSearches } from "@/features/jobs/saved-searches";
import { PageLayout } from "@/ui/layout";

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
    </PageLayout>
  );
}
