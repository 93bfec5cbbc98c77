/** A policy or placer with its parameters in one line, "gavel:objective=makespan", as the server has it. Pure. */

import type { PluginParameter } from "@/api/schema";

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

/** The parameters after one was set. What is as it would be anyway, and what was emptied, is left out. */
export function withParameter(
  parameters: Readonly<Record<string, unknown>>,
  { name, default: usual }: Pick<PluginParameter, "name" | "default">,
  value: unknown,
): Record<string, unknown> {
  const rest = Object.fromEntries(Object.entries(parameters).filter(([other]) => other !== name));
  const isEmpty = value === undefined || value === "" || (Array.isArray(value) && value.length === 0);
  return isEmpty || JSON.stringify(value) === JSON.stringify(usual) ? rest : { ...rest, [name]: value };
}

/** A value as people read it: lists with commas, nothing for none. */
export function inOneLine(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** "gavel, objective max_min". */
export function inWords({ name, parameters }: Chosen): string {
  const given = Object.entries(parameters).map(
    ([parameter, value]) => `${parameter.replaceAll("_", " ")} ${inOneLine(value)}`,
  );
  return [name, ...given].join(", ");
}
