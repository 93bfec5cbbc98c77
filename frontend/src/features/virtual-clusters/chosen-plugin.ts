/** A chosen policy or placer: its parameters as fields hold them, and as people read them. Pure. */

import type { ChosenPlugin, PluginParameter } from "@/api/schema";

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
export function inWords({ name, parameters }: ChosenPlugin): string {
  const given = Object.entries(parameters).map(
    ([parameter, value]) => `${parameter.replaceAll("_", " ")} ${inOneLine(value)}`,
  );
  return [name, ...given].join(", ");
}
