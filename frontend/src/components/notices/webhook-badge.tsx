import { Ban, CircleCheck, CircleX, Clock } from "lucide-react";

import type { Delivery, Webhook } from "@/api/schema";
import { Badge } from "@/components/state-badge";
import { webhookState } from "@/components/notices/words";

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
