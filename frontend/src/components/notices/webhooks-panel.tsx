import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Ban, CircleCheck, CircleX, Clock, Plus } from "lucide-react";
import { useState } from "react";

import { webhooksQuery } from "@/api/notice-queries";
import type { Delivery, Webhook } from "@/api/schema";
import styles from "@/components/notices/notices.module.css";
import { AddWebhookDialog } from "@/components/notices/webhook-dialogs";
import { webhookState } from "@/components/notices/words";
import { Badge } from "@/components/state-badge";
import { Button } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { muted, Panel } from "@/ui/layout";

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
          { header: "Topics", className: muted, cell: ({ topics }) => topics.join(", ") },
        ]}
      />
      {adding && <AddWebhookDialog tenant={tenant} onClose={() => setAdding(false)} />}
    </Panel>
  );
}

const WEBHOOK_LOOKS = {
  works: { text: "On", tone: "running", icon: CircleCheck },
  failing: { text: "Failing", tone: "failed", icon: CircleX },
  off: { text: "Off", tone: "off", icon: Ban },
} as const;

const DELIVERY_LOOKS = {
  waiting: { text: "Waiting", tone: "waiting", icon: Clock },
  delivered: { text: "Delivered", tone: "done", icon: CircleCheck },
  given_up: { text: "Given up", tone: "failed", icon: CircleX },
} as const;

export function WebhookBadge({ webhook }: { webhook: Webhook }) {
  return <Badge look={WEBHOOK_LOOKS[webhookState(webhook)]} />;
}

export function DeliveryBadge({ state }: Pick<Delivery, "state">) {
  return <Badge look={DELIVERY_LOOKS[state]} />;
}
