/** A stored specification in the words of the person who could have written it. Pure. */

import { stringify } from "yaml";

const DEFAULTS: Record<string, unknown> = {
  priority: 0,
  retry: { max_attempts: 3 },
  checkpoint: { grace_seconds: 30 },
};
// Groups in which an empty list says something: `notify: {email: []}` asks for no mail, and nothing for the usual.
const EMPTY_COUNTS = ["notify"];

/** A stored specification as a person would have written it: no defaults, no empty parts, sizes with units. */
export function writeSpec(spec: object): string {
  return stringify(tidied(spec), { lineWidth: 0 });
}

function tidied(spec: object, group = ""): Record<string, unknown> {
  const kept: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(spec) as [string, unknown][]) {
    if (Array.isArray(value) && EMPTY_COUNTS.includes(group)) kept[key] = value;
    else if (isEmpty(value) || JSON.stringify(value) === JSON.stringify(DEFAULTS[key])) continue;
    else if (key === "memory" && typeof value === "number") kept[key] = sizeText(value);
    else if ((key === "time_limit" || key === "estimate") && typeof value === "number") kept[key] = durationText(value);
    else if (Array.isArray(value))
      kept[key] = value.map((item: unknown) => (item !== null && typeof item === "object" ? tidied(item) : item));
    else if (typeof value === "object" && value !== null) kept[key] = tidied(value, key);
    else kept[key] = value;
  }
  return kept;
}

function isEmpty(value: unknown): boolean {
  if (value === null || value === undefined) return true;
  return typeof value === "object" && Object.keys(value).length === 0;
}

function sizeText(bytes: number): string | number {
  for (const [unit, size] of [
    ["GiB", 2 ** 30],
    ["MiB", 2 ** 20],
  ] as const) {
    if (bytes > 0 && bytes % size === 0) return `${bytes / size}${unit}`;
  }
  return bytes;
}

function durationText(seconds: number): string | number {
  if (seconds > 0 && seconds % 3600 === 0) return `${seconds / 3600}h`;
  if (seconds > 0 && seconds % 60 === 0) return `${seconds / 60}m`;
  return seconds;
}
