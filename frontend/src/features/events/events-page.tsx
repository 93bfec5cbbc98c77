import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { nodeNamesQuery } from "@/api/map-queries";
import { type EventFilters, eventsQuery, tenantsQuery } from "@/api/queries";
import { EventTable } from "@/components/event-table";
import { Filter, TypedSearch } from "@/components/filter";
import { EmptyState } from "@/ui/feedback";
import { PageLayout, Panel, Row } from "@/ui/layout";

const route = getRouteApi("/events");

const KINDS = [
  { value: "job", label: "Jobs" },
  { value: "job.failed", label: "Jobs that failed" },
  { value: "job.requeued", label: "Jobs that were queued again" },
  { value: "attempt", label: "Attempts" },
  { value: "node", label: "Nodes" },
  { value: "node.lost", label: "Nodes that were lost" },
  { value: "virtual_cluster", label: "Virtual clusters" },
  { value: "budget", label: "Budgets" },
  { value: "reservation", label: "Reservations" },
];

export function EventsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useInfiniteQuery(eventsQuery(search));
  const tenants = useQuery(tenantsQuery);
  const nodes = useQuery(nodeNamesQuery);
  const events = query.data?.pages.flatMap((page) => page.results) ?? [];
  const choose = (changed: Partial<typeof search>) =>
    void navigate({ search: (now) => ({ ...now, ...changed }), replace: true });
  return (
    <PageLayout title="Events" lead="Changes of jobs, nodes and virtual clusters, with their causes.">
      <Row>
        <TypedSearch
          label="Job: number or whole name"
          value={search.job_name ?? search.job?.toString() ?? ""}
          onChange={(typed) => choose(jobWanted(typed.trim()))}
        />
        <Filter label="Kind" value={search.kind} options={KINDS} onChange={(kind) => choose({ kind })} />
        <Filter
          label="Tenant"
          value={search.tenant}
          options={(tenants.data ?? []).map(({ name }) => name)}
          onChange={(tenant) => choose({ tenant })}
        />
        <Filter label="Node" value={search.node} options={nodes.data ?? []} onChange={(node) => choose({ node })} />
      </Row>
      <Panel flush>
        <EventTable
          events={events}
          query={query}
          skeletonLines={10}
          empty={
            <EmptyState
              title={Object.values(search).some(Boolean) ? "No event matches" : "Nothing happened here yet"}
            />
          }
          more="Show older events"
        />
      </Panel>
    </PageLayout>
  );
}

/** "#17" and "17" are the job of that number; everything else is a name. */
function jobWanted(typed: string): Pick<EventFilters, "job" | "job_name"> {
  const number = /^#?(\d{1,15})$/.exec(typed)?.[1];
  return number ? { job: Number(number), job_name: undefined } : { job: undefined, job_name: typed || undefined };
}
