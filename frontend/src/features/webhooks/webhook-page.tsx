import { useInfiniteQuery, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { getRouteApi, Link, useNavigate } from "@tanstack/react-router";
import { Send } from "lucide-react";
import { useState } from "react";

import {
  changeWebhook,
  deliveriesQuery,
  redeliver,
  removeWebhook,
  testWebhook,
  webhookQuery,
} from "@/api/notice-queries";
import type { Delivery, Webhook } from "@/api/schema";
import { ago, moment } from "@/components/format";
import { useNow } from "@/components/now";
import { DeliveryBadge, WebhookBadge } from "@/components/notices/webhooks-panel";
import { EditWebhookDialog, RotateDialog } from "@/components/notices/webhook-dialogs";
import { answerText, nextTry } from "@/components/notices/words";
import { Button } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { Confirm } from "@/ui/confirm";
import { Dialog, DialogActions } from "@/ui/dialog";
import { EmptyState, ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { Facts, muted, oneLine, PageLayout, Panel, Row, Stack } from "@/ui/layout";
import { useSay } from "@/ui/toasts";
import styles from "@/components/notices/notices.module.css";

const route = getRouteApi("/webhooks/$id");

/** One webhook, and what became of each message to it. */
export function WebhookPage() {
  const { id } = route.useParams();
  const query = useQuery(webhookQuery(Number(id)));
  if (!query.data) {
    return (
      <PageLayout title="Webhook">
        {query.isError ? <ErrorNotice error={query.error} onRetry={() => void query.refetch()} /> : <SkeletonLines />}
      </PageLayout>
    );
  }
  return <WebhookView webhook={query.data} key={id} />;
}

function WebhookView({ webhook }: { webhook: Webhook }) {
  return (
    <PageLayout
      title={webhook.title || new URL(webhook.url).host}
      lead={
        <>
          <WebhookBadge webhook={webhook} />
          {webhook.tenant ? (
            <Link to="/tenants/$name" params={{ name: webhook.tenant }}>
              Tenant {webhook.tenant}
            </Link>
          ) : (
            <span>All of the cluster</span>
          )}
        </>
      }
      actions={<WebhookActions webhook={webhook} />}
    >
      <Stack>
        {webhook.problem && <Notice tone="failed">{webhook.problem}</Notice>}
        <Panel title="Webhook">
          <Facts
            facts={[
              ["URL", <span className={styles.url}>{webhook.url}</span>],
              ["Topics", webhook.topics.join(", ")],
              ["Made", `${moment(webhook.created_at)} by ${webhook.created_by}`],
              ["Failed in a row", failures(webhook)],
              ["Next try", webhook.held_until ? moment(webhook.held_until) : "at once"],
              ["Old secret signs until", webhook.old_secret_ends_at ? moment(webhook.old_secret_ends_at) : "–"],
            ]}
          />
        </Panel>
        <DeliveriesPanel webhook={webhook} />
      </Stack>
    </PageLayout>
  );
}

function failures({ failures: count, failing_since: since }: Webhook): string {
  return since ? `${count}, since ${moment(since)}` : "none";
}

/** What changes a webhook, with what it says when it fails. */
function useWebhookDeed(id: number, act: () => Promise<unknown>, done: string) {
  const say = useSay();
  const queries = useQueryClient();
  return useMutation({
    mutationFn: act,
    onSuccess: () => {
      say("done", done);
      void queries.invalidateQueries({ queryKey: ["webhooks", id] });
    },
    onError: (error) => say("failed", error.message),
  });
}

function WebhookActions({ webhook: { id, active }, webhook }: { webhook: Webhook }) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [open, setOpen] = useState<"edit" | "rotate" | "remove" | null>(null);
  const close = () => setOpen(null);
  const test = useWebhookDeed(id, () => testWebhook(id), "A test message is on its way.");
  const toggle = useWebhookDeed(
    id,
    () => changeWebhook(id, { active: !active }),
    active ? "The webhook is off." : "The webhook is on.",
  );
  const remove = useMutation({
    mutationFn: () => removeWebhook(id),
    onSuccess: () => {
      void queries.invalidateQueries({ queryKey: ["webhooks", "of"] });
      void navigate(webhook.tenant ? { to: "/tenants/$name", params: { name: webhook.tenant } } : { to: "/tenants" });
    },
  });
  return (
    <Row>
      <Button look="primary" icon={<Send size={14} aria-hidden />} busy={test.isPending} onClick={() => test.mutate()}>
        Test
      </Button>
      <Button onClick={() => setOpen("edit")}>Edit</Button>
      <Button onClick={() => setOpen("rotate")}>New secret</Button>
      <Button busy={toggle.isPending} onClick={() => toggle.mutate()}>
        {active ? "Switch off" : "Switch on"}
      </Button>
      <Button onClick={() => setOpen("remove")}>Remove</Button>
      {open === "edit" && <EditWebhookDialog webhook={webhook} onClose={close} />}
      {open === "rotate" && <RotateDialog webhook={webhook} onClose={close} />}
      <Confirm
        open={open === "remove"}
        onClose={close}
        title="Remove the webhook?"
        description="Waiting messages are not sent."
        action="Remove"
        busy={remove.isPending}
        onConfirm={() => remove.mutate()}
      />
    </Row>
  );
}

function DeliveriesPanel({ webhook }: { webhook: Webhook }) {
  const { id } = webhook;
  const query = useInfiniteQuery(deliveriesQuery(id));
  const now = useNow();
  const [shown, setShown] = useState<Delivery | null>(null);
  const deliveries = query.data?.pages.flatMap((page) => page.results) ?? [];
  return (
    <Panel title="Deliveries" flush>
      <DataTable
        label="Deliveries"
        rows={deliveries}
        rowKey={({ id: number }) => number}
        query={query}
        empty={<EmptyState title="No messages yet">Try it with a test message.</EmptyState>}
        columns={[
          {
            header: "Message",
            isRowHeader: true,
            className: oneLine,
            cell: (delivery) => (
              <>
                <Button onClick={() => setShown(delivery)}>{delivery.topic}</Button>{" "}
                <span className={muted}>{ago(delivery.created_at, now)}</span>
              </>
            ),
          },
          { header: "State", cell: ({ state }) => <DeliveryBadge state={state} /> },
          { header: "Tries", isNumeric: true, cell: ({ tries }) => tries },
          {
            header: "Took",
            isNumeric: true,
            cell: ({ seconds }) => (seconds === null ? "–" : `${seconds.toFixed(2)} s`),
          },
          { header: "Answer", className: muted, cell: (delivery) => answerText(delivery).slice(0, 80) },
          {
            header: "Next try",
            className: oneLine,
            cell: (delivery) => (delivery.state === "waiting" ? moment(nextTry(delivery, webhook)) : "–"),
          },
        ]}
      />
      {shown && <DeliveryDialog webhook={id} delivery={shown} onClose={() => setShown(null)} />}
    </Panel>
  );
}

interface DeliveryDialogProps {
  webhook: number;
  delivery: Delivery;
  onClose: () => void;
}

function DeliveryDialog({ webhook, delivery, onClose }: DeliveryDialogProps) {
  const again = useWebhookDeed(webhook, () => redeliver(webhook, delivery.id), "The message is sent again.");
  return (
    <Dialog open onClose={onClose} title={delivery.topic} description={`webhook-id: ${delivery.message}`}>
      <Stack>
        <pre className={styles.body}>{indented(delivery.body)}</pre>
        {answerText(delivery) && (
          <div>
            <p className={styles.note}>The last answer</p>
            <pre className={styles.body}>{answerText(delivery)}</pre>
          </div>
        )}
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button
            look="primary"
            busy={again.isPending}
            onClick={() => {
              again.mutate();
              onClose();
            }}
          >
            Send again
          </Button>
        </DialogActions>
      </Stack>
    </Dialog>
  );
}

function indented(body: string): string {
  try {
    return JSON.stringify(JSON.parse(body), null, 2);
  } catch {
    return body;
  }
}
