import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { eventsQuery, nodesQuery, tenantsQuery } from "@/api/queries";
import { EventTable } from "@/components/event-table";
import { Filter } from "@/components/filter";
import { EmptyState } from "@/ui/feedback";
import { PageLayout, Panel, Row } from "@/ui/layout";

const route = getRouteApi("/events");

const KINDS = [
  { value: "job", label: "Jobs" },
  { value: "attempt", label: "Attempts" },
  { value: "node", label: "Nodes" },
  { value: "virtual_cluster", label: "Virtual clusters" },
];

export function EventsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useInfiniteQuery(eventsQuery(search));
  const tenants = useQuery(tenantsQuery);
  const nodes = useQuery(nodesQuery);
  const events = query.data?.pages.flatMap((page) => page.results) ?? [];
  const choose = (changed: Partial<typeof search>) =>
    void navigate({ search: (now) => ({ ...now, ...changed }), replace: true });
  return (
    <PageLayout title="Events" lead="Changes of jobs, nodes and virtual clusters, with their causes.">
      <Row>
        <Filter label="Kind" value={search.kind} options={KINDS} onChange={(kind) => choose({ kind })} />
        <Filter
          label="Tenant"
          value={search.tenant}
          options={(tenants.data ?? []).map(({ name }) => name)}
          onChange={(tenant) => choose({ tenant })}
        />
        <Filter
          label="Node"
          value={search.node}
          options={(nodes.data ?? []).map(({ name }) => name)}
          onChange={(node) => choose({ node })}
        />
      </Row>
      <Panel flush>
        <EventTable
          events={events}
          query={query}
          skeletonLines={10}
          empty={<EmptyState title="Nothing happened here yet" />}
          more="Show older events"
        />
      </Panel>
    </PageLayout>
  );
}
