/** Offers, loans and rules as people say them. Pure; the present is an argument. */

import type { CreditAllowance, CreditTransfer, Loan, MarketRule, Offer } from "@/api/schema";
import { amount, clockAhead, counted, creditsText, duration, lotText } from "@/components/format";

/** "now until 16:00 (2 h)": an offer without a beginning begins when it is taken. */
export function offerTime({ starts_at: starts, ends_at: ends }: Pick<Offer, "starts_at" | "ends_at">, now: number) {
  const from = starts && Date.parse(starts) > now ? Date.parse(starts) : now;
  const beginning = starts && from > now ? clockAhead(starts, now) : "now";
  return `${beginning} until ${clockAhead(ends, now)} (${duration(Math.max(0, Date.parse(ends) - from) / 1000)})`;
}

/** "1.5 a GPU-hour", and what is wanted in return. */
export function priceText({
  price_per_gpu_hour: price,
  in_return: wanted,
}: Pick<Offer, "price_per_gpu_hour" | "in_return">) {
  const parts = price > 0 ? [`${amount(price)} a GPU-hour`] : [];
  if (wanted) parts.push(`${lotText(wanted)} in return`);
  return parts.join(" and ") || "free";
}

/** The part of a loan's time that is left, 0 to 1. */
export function partLeft(
  { starts_at: starts, ends_at: ends }: Pick<Loan, "starts_at" | "ends_at">,
  now: number,
): number {
  const whole = Date.parse(ends) - Date.parse(starts);
  return whole > 0 ? Math.min(1, Math.max(0, (Date.parse(ends) - now) / whole)) : 0;
}

/** What a rule does, to be read after the name of its virtual cluster. */
export function ruleText(rule: MarketRule): string {
  const price = creditsText(rule.price_per_gpu_hour);
  if (rule.kind === "lend") {
    const free = rule.price_per_gpu_hour > 0 ? `at ${price} a GPU-hour or more` : "at no price";
    return (
      `lends up to ${lotText(rule.lot ?? {})} that has been idle for ${duration(rule.idle_seconds ?? 0)}, ` +
      `for ${duration(rule.lend_seconds ?? 0)}, ${free}`
    );
  }
  const models = rule.gpu_models.length > 0 ? ` (${rule.gpu_models.join(" or ")})` : "";
  const most = rule.price_per_gpu_hour > 0 ? `at ${price} a GPU-hour or less` : "if they are free";
  return (
    `borrows up to ${counted(rule.most_gpus ?? 0, "GPU")}${models} once its jobs have waited for ` +
    `${duration(rule.waiting_seconds ?? 0)}, ${most}`
  );
}

export function allowanceText({ credits, every_seconds: every, next_at: next }: CreditAllowance, now: number): string {
  return `${creditsText(credits)} every ${duration(every)}, next ${clockAhead(next, now)}`;
}

export const TRANSFER_TEXT: Record<CreditTransfer["kind"], string> = {
  grant: "Grant",
  allowance: "Allowance",
  payment: "Payment",
  refund: "Refund",
  taken_back: "Taken back",
};

/** An instant as a field for local time has it, "2026-01-31T14:05". */
export function localInput(instant: number): string {
  return new Date(instant - new Date(instant).getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** What a field for local time holds, in the way the server reads it; empty while it holds nothing whole. */
export function instantOf(typed: string): string {
  const instant = Date.parse(typed);
  return Number.isNaN(instant) ? "" : new Date(instant).toISOString();
}
