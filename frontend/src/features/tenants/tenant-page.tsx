import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { tenantQuery, virtualClustersQuery } from "@/api/queries";
import type { Tenant } from "@/api/schema";
import { SecretsPanel } from "@/components/secrets/secrets-panel";
import { isAdminOf } from "@/components/roles";
import { useSession } from "@/components/session";
import { BudgetPanel } from "@/features/tenants/budget-panel";
import { WebhooksPanel } from "@/components/notices/webhooks-panel";
import { InvitationsPanel } from "@/features/tenants/invitations-panel";
import { MembersPanel } from "@/features/tenants/members-panel";
import { QuotaPanel } from "@/features/tenants/quota-panel";
import { useNewest } from "@/live/live";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { muted, PageLayout, Panel, Stack } from "@/ui/layout";
import styles from "@/features/tenants/tenants.module.css";

const route = getRouteApi("/tenants/$name");

export function TenantPage() {
  const { name } = route.useParams();
  const query = useQuery(tenantQuery(name));
  if (!query.data) {
    return (
      <PageLayout title={name}>
        {query.isError ? <ErrorNotice error={query.error} onRetry={() => void query.refetch()} /> : <SkeletonLines />}
      </PageLayout>
    );
  }
  return <TenantView tenant={query.data} key={name} />;
}

function TenantView({ tenant }: { tenant: Tenant }) {
  const me = useSession();
  return (
    <PageLayout
      title={tenant.title || tenant.name}
      lead={
        <>
          <span>{tenant.name}</span>
          <Link to="/jobs" search={{ tenant: tenant.name }}>
            Its jobs
          </Link>
        </>
      }
    >
      <div className={styles.columns}>
        <Stack>
          <QuotaPanel tenant={tenant.name} />
          <BudgetPanel tenant={tenant.name} />
          <MembershipsPanel tenant={tenant.name} />
        </Stack>
        <Stack>
          <MembersPanel tenant={tenant.name} />
          {isAdminOf(me, tenant.name) && <InvitationsPanel tenant={tenant.name} />}
          <SecretsPanel owner={tenant.name} mayChange={isAdminOf(me, tenant.name)} />
          {isAdminOf(me, tenant.name) && <WebhooksPanel tenant={tenant.name} />}
        </Stack>
      </div>
    </PageLayout>
  );
}

function MembershipsPanel({ tenant }: { tenant: string }) {
  const query = useQuery(virtualClustersQuery);
  const clusters = useNewest("virtual_cluster", query.data).filter(({ members }) =>
    members.some((member) => member.tenant === tenant),
  );
  return (
    <Panel title="Virtual clusters">
      {clusters.length === 0 ? (
        <EmptyState title="In no virtual cluster">
          Jobs need a virtual cluster: an operator makes the tenant a member of one.
        </EmptyState>
      ) : (
        <ul className={styles.lines}>
          {clusters.map((cluster) => (
            <li key={cluster.name}>
              <Link to="/virtual-clusters">{cluster.title || cluster.name}</Link>{" "}
              <span className={muted}>weight {cluster.members.find((member) => member.tenant === tenant)?.weight}</span>
            </li>
          ))}
        </ul>
      )}
    </Panel>
  );
}
