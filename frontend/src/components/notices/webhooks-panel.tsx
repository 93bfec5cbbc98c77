import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState } from "react";

import { webhooksQuery } from "@/api/notice-queries";
import { AddWebhookDialog } from "@/components/notices/webhook-dialogs";
import { WebhookBadge } from "@/components/notices/webhook-badge";
import { Button } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { muted, Panel } from "@/ui/layout";
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
      <DataTable
        label="Webhooks"
        rows={query.data}
        rowKey={({ id }) => id}
        query={query}
        skeletonLines={2}
        empty={
          <EmptyState title="No webhooks">
            A webhook tells another program what happens {tenant ? "to the tenant's jobs" : "in the cluster"}.
          </EmptyState>
        }
        columns={[
          {
            header: "Webhook",
            isRowHeader: true,
            className: styles.url,
            cell: (webhook) => (
              <>
                <Link to="/webhooks/$id" params={{ id: String(webhook.id) }}>
                  {webhook.title || new URL(webhook.url).host}
                </Link>
                <p className={muted}>{webhook.url}</p>
              </>
            ),
          },
          { header: "State", cell: (webhook) => <WebhookBadge webhook={webhook} /> },
          { header: "Told of", className: muted, cell: ({ topics }) => topics.join(", ") },
        ]}
      />
      {adding && <AddWebhookDialog tenant={tenant} onClose={() => setAdding(false)} />}
    </Panel>
  );
}
