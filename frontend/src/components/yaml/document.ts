/** YAML text that forms read and edit in place, and where in it a field stands. Pure. */

import { type Document, isMap, isNode, isPair, isSeq, LineCounter, parseDocument } from "yaml";

export type Path = readonly (string | number)[];

export interface ParsedYaml {
  /** What the text says as plain data, null while it is not an object or not YAML. */
  data: Record<string, unknown> | null;
  problem: { message: string; line: number } | null;
}

export function parseYaml(text: string, what: string): ParsedYaml {
  const { document, lines } = read(text);
  const [error] = document.errors;
  if (error)
    return { data: null, problem: { message: sentence(error.message), line: lines.linePos(error.pos[0]).line } };
  const data: unknown = document.toJS();
  if (data === null || typeof data !== "object" || Array.isArray(data)) {
    return { data: null, problem: { message: `${what} is an object: write name: value lines.`, line: 1 } };
  }
  return { data: data as Record<string, unknown>, problem: null };
}

/** The text with one value changed, comments and all else left as they were. Undefined removes it. */
export function editYaml(text: string, path: Path, value: unknown): string {
  const { document } = read(text);
  if (document.errors.length > 0) return text;
  if (value === undefined) document.deleteIn(path);
  else document.setIn(path, document.createNode(value));
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

/** Tells on which line of the text the value at a path stands, or else the nearest thing around it. */
export function linesOf(text: string): (path: Path) => number {
  const { document, lines } = read(text);
  return (path) => {
    const keys = path.map(String);
    for (let length = keys.length; length > 0; length -= 1) {
      const offset = offsetOf(document, keys.slice(0, length));
      if (offset !== null) return lines.linePos(offset).line;
    }
    return 1;
  };
}

function offsetOf(document: Document, keys: readonly string[]): number | null {
  let node: unknown = document.contents;
  let offset: number | null = null;
  for (const key of keys) {
    if (isMap(node)) {
      const pair = node.items.find((item) => isPair(item) && String(item.key) === key);
      if (!pair) return null;
      offset = isNode(pair.key) ? (pair.key.range?.[0] ?? null) : null;
      node = pair.value;
    } else if (isSeq(node)) {
      node = node.items[Number(key)];
      if (!isNode(node)) return null;
      offset = node.range?.[0] ?? null;
    } else {
      return null;
    }
  }
  return offset;
}

function read(text: string) {
  const lines = new LineCounter();
  return { document: parseDocument(text, { lineCounter: lines, prettyErrors: false }), lines };
}

function sentence(message: string): string {
  return message.endsWith(".") ? message : `${message}.`;
}

export function asText(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

export function asNumber(value: unknown): number | undefined {
  return typeof value === "number" ? value : undefined;
}

export function asObject(value: unknown): Record<string, unknown> {
  return value !== null && typeof value === "object" && !Array.isArray(value) ? (value as Record<string, unknown>) : {};
}
