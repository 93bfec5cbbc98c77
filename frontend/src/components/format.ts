/** Numbers and times in words. Pure; the present is an argument. */

import type { LotInputRequest } from "@/api/schema";

export function duration(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds));
  if (whole < 60) return `${whole} s`;
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return whole % 60 === 0 ? `${minutes} min` : `${minutes} min ${pad(whole % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${pad(minutes % 60)} min`;
  return hours % 24 === 0 ? `${hours / 24} d` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** The unit in which to draw times of which this is the longest. */
export function timeUnit(longestSeconds: number): { name: string; seconds: number } {
  if (longestSeconds >= 5 * 3600) return { name: "hours", seconds: 3600 };
  return longestSeconds >= 5 * 60 ? { name: "minutes", seconds: 60 } : { name: "seconds", seconds: 1 };
}

function pad(value: number): string {
  return String(value).padStart(2, "0");
}

export function secondsBetween(from: string | null, to: string | null, now: number): number | null {
  if (!from) return null;
  return ((to ? Date.parse(to) : now) - Date.parse(from)) / 1000;
}

export function ago(at: string, now: number): string {
  const seconds = (now - Date.parse(at)) / 1000;
  return seconds < 5 ? "just now" : `${duration(seconds)} ago`;
}

const momentFormat = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});

export function moment(at: string | null): string {
  return at ? momentFormat.format(new Date(at)) : "–";
}

const clockFormat = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
});

export function clockTime(at: string): string {
  return clockFormat.format(new Date(at));
}

/** "14:32". */
export function minuteTime(at: string): string {
  return minuteFormat.format(new Date(at));
}

/** "Nov 22". */
export function dayOf(at: string): string {
  return onlyDayFormat.format(new Date(at));
}

/** "14:32" today, else with the day: for instants ahead, of which seconds would say too much. */
export function clockAhead(at: string, now: number): string {
  const day = new Date(at).toDateString() === new Date(now).toDateString();
  return (day ? minuteFormat : dayFormat).format(new Date(at));
}

const minuteFormat = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const onlyDayFormat = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });
const dayFormat = new Intl.DateTimeFormat(undefined, {
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  hourCycle: "h23",
});

const UTC_TIME = /(\d\d:\d\d:\d\d) UTC on (\d{1,2} [A-Z][a-z]+)/g;
const UTC_DATE = /(\d{4}-\d\d-\d\d) (\d\d:\d\d(:\d\d)?) UTC/g;
const YEAR_MS = 365.25 * 86_400_000;

/**
 * The server's sentences with their times, "14:05:30 UTC on 21 November" or "2026-11-21 14:05 UTC", as the reader's clock has them. They name no
 * year: it is the one that is nearest to `near`, an instant of about then.
 */
export function inLocalTime(text: string, near: string | number): string {
  const around = new Date(near).getTime();
  // A time without seconds gets none: zero seconds would be false.
  const dated = text.replace(UTC_DATE, (_, day: string, clock: string, seconds?: string) =>
    (seconds ? momentFormat : dayFormat).format(new Date(`${day}T${clock}Z`)),
  );
  return dated.replace(UTC_TIME, (said, clock: string, day: string) => {
    const year = new Date(around).getUTCFullYear();
    const at = [year - 1, year, year + 1]
      .map((each) => Date.parse(`${day} ${each} ${clock} UTC`))
      .find((each) => Math.abs(each - around) <= YEAR_MS / 2);
    return at === undefined ? said : moment(new Date(at).toISOString());
  });
}

export function bytes(count: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let value = count;
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toFixed(1)} ${units[unit] ?? ""}`;
}

const countFormat = new Intl.NumberFormat("en-US", { maximumFractionDigits: 1 });

export function count(value: number): string {
  return countFormat.format(value);
}

/** "1 GPU", "0.5 GPU", "4 GPUs": English plurals are an s here. */
export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value > 0 && value <= 1 ? "" : "s"}`;
}

export function gpuHours(gpuSeconds: number): string {
  return gpuSeconds < 360 ? `${count(gpuSeconds)} GPU s` : `${count(gpuSeconds / 3600)} GPU h`;
}

/** The class of a failure for people: "Import error". */
export function failureClass(name: string): string {
  return name === "no_signature" ? "Unclassified" : words(name);
}

/** "lost_node" as "Lost node". */
export function words(token: string): string {
  const text = token.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

const credit = new Intl.NumberFormat("en-US", { maximumFractionDigits: 3 });

/** "2 P100, 1 V100-SWITCH". */
export function lotText({ gpus = {}, cells = {} }: LotInputRequest): string {
  const parts = [...Object.entries(gpus), ...Object.entries(cells)].filter(([, number]) => number > 0);
  return parts.map(([name, number]) => `${number} ${name}`).join(", ") || "nothing";
}

/** "1.5 credits", "1 credit". */
export function creditsText(credits: number): string {
  return `${amount(credits)} credit${credits === 1 ? "" : "s"}`;
}

/** A sum of credits as a bare figure, to the thousandth. */
export function amount(credits: number): string {
  return credit.format(credits);
}

// Control characters but tab and newline, and the marks that reorder or hide the text beside them.
const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g;

/** Text from other people, with a symbol for each character that is not seen but acts. Its length stays. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (letter) => {
    const code = letter.charCodeAt(0);
    return code < 0x20 ? String.fromCharCode(0x2400 + code) : code === 0x7f ? "\u2421" : "\ufffd";
  });
}
