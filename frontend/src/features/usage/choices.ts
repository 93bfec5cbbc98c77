/** What can be chosen on the page of usage. */

import type { Days } from "@/api/days";

export type Grouping = "tenant" | "user" | "virtual_cluster" | "gpu_model" | "application" | "day";

export const GROUPINGS: readonly { value: Grouping; label: string; header: string }[] = [
  { value: "tenant", label: "tenant", header: "Tenant" },
  { value: "user", label: "user", header: "User" },
  { value: "virtual_cluster", label: "virtual cluster", header: "Virtual cluster" },
  { value: "gpu_model", label: "GPU model", header: "GPU model" },
  { value: "application", label: "application", header: "Application" },
  { value: "day", label: "day", header: "Day (UTC)" },
];

/** Return the groupings that an address names, by tenant where it names none. */
export function groupingsOf(by: string | undefined): Grouping[] {
  const named = by?.split(",") ?? [];
  const known = named.filter((name): name is Grouping => GROUPINGS.some(({ value }) => value === name));
  return known.length > 0 ? known : ["tenant"];
}

export type Period = "month" | "last-month" | "30-days" | "";

export const PERIODS = [
  { value: "month", label: "This month" },
  { value: "last-month", label: "Last month" },
  { value: "30-days", label: "30 days" },
] as const;

/** Return the first and last day of a period; this month is what the server answers without. */
export function daysOf(period: Period, now: Date): Days {
  const year = now.getFullYear();
  const month = now.getMonth();
  if (period === "last-month") return { since: written(year, month - 1, 1), until: written(year, month, 0) };
  if (period === "30-days") return { since: written(year, month, now.getDate() - 29), until: undefined };
  return { since: undefined, until: undefined };
}

/** Return the period that these days are; "" where they are none of `PERIODS`. */
export function periodOf({ since, until }: Days, now = new Date()): Period {
  const found = PERIODS.find(({ value }) => {
    const days = daysOf(value, now);
    return days.since === (since || undefined) && days.until === (until || undefined);
  });
  return found?.value ?? "";
}

/** "2026-11-01", by the viewer's clock; days beyond a month's end belong to the next. */
function written(year: number, month: number, day: number): string {
  const at = new Date(year, month, day);
  const two = (value: number) => String(value).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;
}
