/** A placer with its parameters in one line, "delay:relax_after_seconds=600", as the server has it. Pure. */

export interface Chosen {
  name: string;
  /** Values by name; lists as arrays. */
  parameters: Record<string, unknown>;
}

export function parsePlugin(text: string): Chosen {
  const [name = "", ...rest] = text.split(":");
  // A colon may also be in a value.
  const assignments = rest.join(":").split(",").filter(Boolean);
  return { name, parameters: Object.fromEntries(assignments.map(assignmentOf)) };
}

function assignmentOf(text: string): [string, unknown] {
  const place = text.indexOf("=");
  return [text.slice(0, place), valueOf(text.slice(place + 1))];
}

function valueOf(text: string): unknown {
  if (text.includes("|")) return entriesOf(text, "|");
  return text === "true" || text === "false" ? text === "true" : entryOf(text);
}

/** Entries of a list between separators, numbers as numbers. */
export function entriesOf(text: string, separator: string): unknown[] {
  return text
    .split(separator)
    .map((entry) => entry.trim())
    .filter(Boolean)
    .map(entryOf);
}

function entryOf(text: string): unknown {
  const number = Number(text);
  return Number.isNaN(number) ? text : number;
}

export function formatPlugin({ name, parameters }: Chosen): string {
  const given = Object.entries(parameters)
    .filter(([, value]) => value !== undefined && value !== "" && !(Array.isArray(value) && value.length === 0))
    .map(([parameter, value]) => `${parameter}=${textOf(value)}`);
  return given.length ? `${name}:${given.join(",")}` : name;
}

function textOf(value: unknown): string {
  return Array.isArray(value) ? value.join("|") + (value.length === 1 ? "|" : "") : String(value);
}
