/** Notifications, webhooks and budgets in words. */

import type { BudgetState, Delivery, Webhook } from "@/api/schema";

/** What a webhook may be told of; the last two only the cluster's. */
export const TOPICS: readonly { topic: Webhook["topics"][number]; says: string; ofCluster?: boolean }[] = [
  { topic: "job.started", says: "A job runs" },
  { topic: "job.finished", says: "A job succeeded, or was cancelled" },
  { topic: "job.failed", says: "A job failed for good" },
  { topic: "job.preempted", says: "A job was preempted and waits again" },
  { topic: "job.stuck", says: "A job reports no progress" },
  { topic: "job.trial_failed", says: "A trial run failed" },
  { topic: "job.maintenance", says: "A node of a job closes for maintenance" },
  { topic: "budget.reached", says: "50, 80 or 100 % of a budget is used" },
  { topic: "webhook.disabled", says: "A webhook was switched off" },
  { topic: "node.lost", says: "A node stopped reporting", ofCluster: true },
  { topic: "node.cordoned", says: "A node accepts no new jobs", ofCluster: true },
];

const AMOUNT = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

/** "1,204.5 GPU-hours", "320 EUR", or "320 in cost" where the site's prices have no currency. */
export function amountText(amount: number, unit: string, currency: string | null = null): string {
  const small = amount > 0 && amount < 0.05;
  return `${small ? "under 0.1" : AMOUNT.format(amount)} ${unit === "cost" ? (currency ?? "in cost") : "GPU-hours"}`;
}

/** What is to be expected of a budget, in a sentence; empty where nothing can be said. */
export function outlook(state: BudgetState, day: (at: string) => string): string {
  const { budget, expected, reached_at: reachedAt, ends_at: endsAt } = state;
  if (!budget) return "";
  if (state.used >= budget.amount) {
    const until = endsAt ? ` until ${day(endsAt)}` : "";
    return state.is_holding
      ? `The budget is used up: no further job of the tenant starts${until}. Running jobs continue.`
      : "The budget is used up. Jobs still start.";
  }
  if (reachedAt) return `At the rate of the last 24 hours, the budget will be used up on ${day(reachedAt)}.`;
  if (expected === null || !endsAt) return "";
  return `At the rate of the last 24 hours, ${amountText(expected, budget.unit, state.currency)} will be used by ${day(endsAt)}.`;
}

export function webhookState({ active, failing_since: failingSince }: Webhook): "off" | "failing" | "works" {
  if (!active) return "off";
  return failingSince ? "failing" : "works";
}

/** How the last try of a delivery ended. */
export function answerText({ problem, status, reply }: Delivery): string {
  if (problem) return problem;
  return status === null ? "" : `${status} ${reply}`.trim();
}

/** When a message that waits is tried next: not before its webhook is. */
export function nextTry({ next_at: nextAt }: Delivery, { held_until: heldUntil }: Webhook): string {
  return heldUntil && Date.parse(heldUntil) > Date.parse(nextAt) ? heldUntil : nextAt;
}
