import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState } from "react";

import { webhooksQuery } from "@/api/notice-queries";
import { AddWebhookDialog } from "@/components/notices/webhook-dialogs";
import { WebhookBadge } from "@/components/notices/webhook-badge";
import { Button } from "@/ui/button";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { muted, Panel, TableFrame } from "@/ui/layout";
import styles from "@/components/notices/notices.module.css";

/** Webhooks of a tenant, for its admins, or of the cluster (null), for operators. */
export function WebhooksPanel({ tenant }: { tenant: string | null }) {
  const query = useQuery(webhooksQuery(tenant));
  const [adding, setAdding] = useState(false);
  return (
    <Panel
      title={tenant ? "Webhooks" : "Webhooks of the cluster"}
      flush
      actions={
        <Button icon={<Plus size={14} aria-hidden />} onClick={() => setAdding(true)}>
          New webhook
        </Button>
      }
    >
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines count={2} />}
      {query.data?.length === 0 && (
        <EmptyState title="No webhooks">
          A webhook tells another program what happens {tenant ? "to the tenant's jobs" : "in the cluster"}.
        </EmptyState>
      )}
      {query.data && query.data.length > 0 && (
        <TableFrame label="Webhooks">
          <thead>
            <tr>
              <th>Webhook</th>
              <th>State</th>
              <th>Told of</th>
            </tr>
          </thead>
          <tbody>
            {query.data.map((webhook) => (
              <tr key={webhook.id}>
                <td className={styles.url}>
                  <Link to="/webhooks/$id" params={{ id: String(webhook.id) }}>
                    {webhook.title || new URL(webhook.url).host}
                  </Link>
                  <p className={muted}>{webhook.url}</p>
                </td>
                <td>
                  <WebhookBadge webhook={webhook} />
                </td>
                <td className={muted}>{webhook.topics.join(", ")}</td>
              </tr>
            ))}
          </tbody>
        </TableFrame>
      )}
      {adding && <AddWebhookDialog tenant={tenant} onClose={() => setAdding(false)} />}
    </Panel>
  );
}
