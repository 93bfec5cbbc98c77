import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { eventsQuery, nodesQuery, tenantsQuery } from "@/api/queries";
import { EventTable } from "@/components/event-table";
import { Button } from "@/ui/button";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { Select } from "@/ui/field";
import { PageLayout, Panel, Row } from "@/ui/layout";
import styles from "@/features/events/events.module.css";

const route = getRouteApi("/events");

const KINDS = [
  { value: "", label: "Everything" },
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
    <PageLayout title="Events" lead="What happened, to what, and who did it.">
      <Row>
        <Select
          aria-label="Kind"
          className={styles.choice}
          value={search.kind ?? ""}
          options={KINDS}
          onChange={(event) => choose({ kind: event.target.value })}
        />
        <Select
          aria-label="Tenant"
          className={styles.choice}
          value={search.tenant ?? ""}
          options={[
            { value: "", label: "Tenant: any" },
            ...(tenants.data ?? []).map(({ name }) => ({ value: name, label: name })),
          ]}
          onChange={(event) => choose({ tenant: event.target.value })}
        />
        <Select
          aria-label="Node"
          className={styles.choice}
          value={search.node ?? ""}
          options={[
            { value: "", label: "Node: any" },
            ...(nodes.data ?? []).map(({ name }) => ({ value: name, label: name })),
          ]}
          onChange={(event) => choose({ node: event.target.value })}
        />
      </Row>
      <Panel flush>
        {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
        {query.isPending ? (
          <SkeletonLines count={10} />
        ) : events.length > 0 ? (
          <EventTable events={events} />
        ) : (
          <EmptyState title="Nothing happened here yet" />
        )}
        {query.hasNextPage && (
          <div className={styles.more}>
            <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
              Show older events
            </Button>
          </div>
        )}
      </Panel>
    </PageLayout>
  );
}
