/** The YAML text as the one truth of the submit page: the form reads it and edits it in place. Pure. */

import { isMap, isNode, isPair, isSeq, LineCounter, parseDocument, type Document } from "yaml";

export type Path = readonly (string | number)[];

export interface ParsedSpec {
  /** What the text says as plain data, null while it is not an object or not YAML. */
  spec: Record<string, unknown> | null;
  problem: { message: string; line: number } | null;
}

export function parseSpec(text: string): ParsedSpec {
  const { document, lines } = read(text);
  const [error] = document.errors;
  if (error)
    return { spec: null, problem: { message: sentence(error.message), line: lines.linePos(error.pos[0]).line } };
  const data: unknown = document.toJS();
  if (data === null || typeof data !== "object" || Array.isArray(data)) {
    return { spec: null, problem: { message: "A job is an object: write name: value lines.", line: 1 } };
  }
  return { spec: data as Record<string, unknown>, problem: null };
}

/** The text with one value changed, comments and all else left as they were. Undefined removes it. */
export function editSpec(text: string, path: Path, value: unknown): string {
  const { document } = read(text);
  if (document.errors.length > 0) return text;
  if (value === undefined) document.deleteIn(path);
  else document.setIn(path, document.createNode(value));
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}

/** The line on which a field such as "tasks.0.resources.gpu" stands, or else the nearest thing around it. */
export function lineOf(text: string, field: string): number {
  const { document, lines } = read(text);
  const keys = field.split(".");
  for (let length = keys.length; length > 0; length -= 1) {
    const offset = offsetOf(document, keys.slice(0, length));
    if (offset !== null) return lines.linePos(offset).line;
  }
  return 1;
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
