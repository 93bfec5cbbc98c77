import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { type FailureFilters, failuresQuery } from "@/api/failure-queries";
import { nodeNamesQuery } from "@/api/map-queries";
import { tenantsQuery } from "@/api/queries";
import type { Failure } from "@/api/schema";
import { failureClassesQuery } from "@/api/settings-queries";
import { DayFilters, Filter } from "@/components/filter";
import { failureClass, moment, visible, words } from "@/components/format";
import { Tag } from "@/components/state-badge";
import styles from "@/features/failures/failures.module.css";
import { Button } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { muted, oneLine, Panel, prose, Row, Stack } from "@/ui/layout";

const route = getRouteApi("/failures");

/** The attempts that failed, the last to end first. */
export function FailureList() {
  const { failure, node, tenant, since, until } = route.useSearch();
  const filters = { failure, node, tenant, since, until };
  const navigate = route.useNavigate();
  const query = useInfiniteQuery(failuresQuery(filters));
  const tenants = useQuery(tenantsQuery);
  const nodes = useQuery(nodeNamesQuery);
  const classes = useQuery(failureClassesQuery);
  const isFiltered = Object.values(filters).some(Boolean);
  const choose = (changed: FailureFilters) =>
    void navigate({ search: (now) => ({ ...now, ...changed }), replace: true });
  return (
    <Stack>
      <Row>
        <Filter
          label="Class"
          value={filters.failure}
          options={(classes.data ?? []).map((name) => ({ value: name, label: failureClass(name) }))}
          onChange={(chosen) => choose({ failure: chosen })}
        />
        <Filter
          label="Node"
          value={filters.node}
          options={nodes.data ?? []}
          onChange={(chosen) => choose({ node: chosen })}
        />
        <Filter
          label="Tenant"
          value={filters.tenant}
          options={(tenants.data ?? []).map(({ name }) => name)}
          onChange={(chosen) => choose({ tenant: chosen })}
        />
        <DayFilters days={filters} onChange={choose} />
      </Row>
      <Panel flush>
        <DataTable
          label="Failed attempts"
          rows={query.data?.pages.flatMap((page) => page.results)}
          rowKey={({ id }) => id}
          query={query}
          skeletonLines={8}
          more="Show older failures"
          empty={
            <EmptyState
              title={isFiltered ? "No failure matches" : "No failures"}
              action={isFiltered && <Button onClick={() => void navigate({ search: {} })}>Clear the filters</Button>}
            />
          }
          columns={[
            { header: "Ended", className: oneLine, cell: ({ ended_at: at }) => moment(at) },
            { header: "Job", isRowHeader: true, cell: (failure) => <JobOf failure={failure} /> },
            {
              header: "Class",
              className: oneLine,
              cell: ({ failure }) => <Tag title={failure}>{failureClass(failure)}</Tag>,
            },
            { header: "Cause", className: prose, cell: (failure) => <Cause failure={failure} /> },
            { header: "Node", cell: ({ nodes: names }) => <NodesOf names={names} /> },
            { header: "Now", className: oneLine, cell: ({ job_state: state }) => words(state) },
          ]}
        />
      </Panel>
    </Stack>
  );
}

function JobOf({ failure }: { failure: Failure }) {
  return (
    <div className={styles.rule}>
      <Link to="/jobs/$id" params={{ id: String(failure.job) }}>
        {visible(failure.job_name)}
      </Link>
      <p className={muted}>
        #{failure.job}, attempt {failure.attempt}, {failure.tenant}
      </p>
    </div>
  );
}

function Cause({ failure }: { failure: Failure }) {
  return (
    <div className={styles.cause}>
      {visible(failure.message) || failure.says}
      {failure.advice && <p className={muted}>{visible(failure.advice)}</p>}
    </div>
  );
}

function NodesOf({ names }: { names: readonly string[] }) {
  const [first, ...others] = names;
  if (first === undefined) return null;
  return (
    <span title={names.join(", ")} className={oneLine}>
      <Link to="/nodes/$name" params={{ name: first }}>
        {first}
      </Link>
      {others.length > 0 && ` and ${others.length} more`}
    </span>
  );
}
