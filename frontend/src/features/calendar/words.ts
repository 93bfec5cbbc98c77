/** What the calendar shows of windows, and of nodes that close. Pure; the present is an argument. */

import type { MaintenanceWindow } from "@/api/schema";

type Span = Pick<MaintenanceWindow, "starts_at" | "ends_at">;

/** Where a window lies between now and the last end, in percent. */
export function place(span: Span, all: readonly Span[], now: number): { left: number; width: number } {
  const last = Math.max(...all.map(({ ends_at: end }) => Date.parse(end)));
  const percent = (at: string) => (100 * Math.max(0, Date.parse(at) - now)) / Math.max(1, last - now);
  const left = percent(span.starts_at);
  return { left, width: Math.max(1, percent(span.ends_at) - left) };
}

/** The names in what somebody typed. */
export function namesIn(text: string): string[] {
  return text.split(/[\s,]+/).filter(Boolean);
}

/** An instant as a field for date and time has it, on the reader's clock. */
export function fieldTime(at: string): string {
  const date = new Date(at);
  return new Date(date.getTime() - 60_000 * date.getTimezoneOffset()).toISOString().slice(0, 16);
}

/** What a typed time is to the server; what is no time stays as it is, for the server to name it. */
export function instantOf(text: string): string {
  const at = new Date(text);
  return Number.isNaN(at.getTime()) ? text : at.toISOString();
}
