/** YAML text that forms read and edit in place, and where in it a field stands. Pure. */

import {
  type Document,
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  LineCounter,
  type Node,
  parseDocument,
  type Tags,
  visit,
} from "yaml";

// Fields whose scalars are texts, wherever they stand: jobs get `1.10` and `0012` as they are written. The
// command line reads the same way; tests/allot/yaml_cases.json holds both to it.
const TEXTS = ["env", "labels", "command"];

export type Path = readonly (string | number)[];

export interface ParsedYaml {
  /** What the text says as plain data, null while it is not an object or not YAML. */
  data: Record<string, unknown> | null;
  problem: { message: string; line: number } | null;
}

export function parseYaml(text: string, what: string): ParsedYaml {
  const { document, lines } = read(text);
  const [error] = document.errors;
  if (error) {
    const message = error.code === "MULTIPLE_DOCS" ? severalDocuments(what) : sentence(error.message);
    return { data: null, problem: { message, line: lines.linePos(error.pos[0]).line } };
  }
  const refused = wrongAlias(document) ?? settle(document.contents, "", false);
  if (refused) return { data: null, problem: { message: refused.message, line: lines.linePos(refused.at).line } };
  let data: unknown;
  try {
    data = document.toJS();
  } catch (thrown) {
    // It merges what is no object, or its aliases would multiply.
    return { data: null, problem: { message: sentence((thrown as Error).message), line: 1 } };
  }
  if (data === null || typeof data !== "object" || Array.isArray(data)) {
    return { data: null, problem: { message: `${what} is an object: write name: value lines.`, line: 1 } };
  }
  return { data: data as Record<string, unknown>, problem: null };
}

function severalDocuments(what: string): string {
  return `${what} is one YAML document, and "---" starts another: remove that line and the document below it.`;
}

interface Refusal {
  message: string;
  at: number;
}

/** Refuses an alias of nothing, and one inside what it stands for, which has no end. */
function wrongAlias(document: Document): Refusal | null {
  let refused: Refusal | null = null;
  visit(document, {
    Alias(_, alias, ancestors) {
      const meant = alias.resolve(document);
      if (meant && !ancestors.includes(meant)) return undefined;
      const message = meant
        ? `*${alias.source} stands inside of &${alias.source}.`
        : `*${alias.source} stands for nothing: no &${alias.source} is above it.`;
      refused = { message, at: start(alias) };
      return visit.BREAK;
    },
  });
  return refused;
}

/** Lets plain scalars of TEXTS be the text that is written, and refuses numbers that are none. */
function settle(node: unknown, place: string, isText: boolean): Refusal | null {
  if (isScalar(node)) {
    if (isText && node.type === "PLAIN") node.value = node.source ?? "";
    else if (typeof node.value === "number" && !Number.isFinite(node.value))
      return { message: `${place || "It"}: ${node.source} is not a valid number for a field.`, at: start(node) };
    return null;
  }
  if (isAlias(node)) return null;
  const inside = isMap(node)
    ? node.items.map(({ key, value }) => {
        const name = String(key);
        return settle(value, place ? `${place}.${name}` : name, isText || TEXTS.includes(name));
      })
    : isSeq(node)
      ? node.items.map((item, index) => settle(item, `${place}[${index}]`, isText))
      : [];
  return inside.find((refusal) => refusal !== null) ?? null;
}

function start(node: Node): number {
  return node.range?.[0] ?? 0;
}

/** The text with one value changed, comments and all else left as they were. Undefined removes it. */
export function editYaml(text: string, path: Path, value: unknown): string {
  const { document } = read(text);
  if (document.errors.length > 0 || wrongAlias(document)) return text;
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

const NUMBERS = ["tag:yaml.org,2002:int", "tag:yaml.org,2002:float"];

// A number that nothing changed is written as it was: 0012 stays 0012.
const keepNumbers = (tags: Tags): Tags =>
  tags.map((tag) =>
    typeof tag === "object" && !tag.collection && NUMBERS.includes(tag.tag)
      ? { ...tag, stringify: (item, ...rest) => item.source ?? tag.stringify?.(item, ...rest) ?? String(item.value) }
      : tag,
  );

function read(text: string) {
  const lines = new LineCounter();
  return {
    document: parseDocument(text, { lineCounter: lines, prettyErrors: false, merge: true, customTags: keepNumbers }),
    lines,
  };
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
