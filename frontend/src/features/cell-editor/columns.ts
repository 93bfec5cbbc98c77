/** What there is to own: one column for each level of each kind of hardware, with what is left of it. Pure. */

import type { VirtualCells } from "@/api/schema";
import type { CellDraft } from "@/features/cell-editor/document";

export interface Column {
  /** How the virtual clusters of the document write it. */
  path: string;
  /** All ways to write it. */
  aliases: string[];
  type: string;
  /** Topmost type of the hardware; null where the hardware has no such cells. */
  chain: string | null;
  /** GPUs of one cell. */
  gpus: number;
  isNode: boolean;
  /** Cells in the hardware. */
  total: number;
  /** Owned by all virtual clusters, pinned ones left out. */
  owned: number;
  /** How many more could be owned. */
  left: number;
  /** Owned ones that the hardware has not, after what is owned at the levels above. */
  missing: number;
}

/** More levels than this, and the types go in circles. */
const MOST_LEVELS = 16;

export function columnsOf(document: CellDraft): Column[] {
  const chains = [...new Set((document.physical ?? []).map(({ type }) => type))].filter(
    (name) => document.types?.[name] !== undefined,
  );
  const ways = new Map(chains.map((chain) => [chain, wayDown(document, chain)]));
  const timesSeen = new Map<string, number>();
  for (const way of ways.values()) for (const type of way) timesSeen.set(type, (timesSeen.get(type) ?? 0) + 1);
  const known = chains.flatMap((chain) => chainColumns(document, chain, ways.get(chain) ?? [], timesSeen));
  const written = new Set(known.flatMap(({ aliases }) => aliases));
  return [...known, ...strayPaths(document, written).map((path) => strayColumn(document, path))];
}

export function ownedBy(document: CellDraft, cluster: string, column: Column): number | undefined {
  const cells = (document.virtual_clusters?.[cluster] as VirtualCells | null | undefined)?.cells;
  const written = column.aliases.find((alias) => cells?.[alias] !== undefined);
  return written === undefined ? undefined : cells?.[written];
}

/** Types from the topmost to the GPU's model. */
function wayDown(document: CellDraft, chain: string): string[] {
  const way = [chain];
  for (let type = document.types?.[chain]; type && way.length <= MOST_LEVELS; type = document.types?.[type.of])
    way.push(type.of);
  return way;
}

function chainColumns(
  document: CellDraft,
  chain: string,
  way: readonly string[],
  timesSeen: ReadonlyMap<string, number>,
): Column[] {
  const tops = (document.physical ?? []).filter(({ type }) => type === chain);
  const pins = pinsWithin(document, new Set(tops.map((top) => top.name ?? top.nodes?.[0] ?? "")));
  const fanouts = way.map((type) => document.types?.[type]?.count ?? 0);
  let total = tops.length;
  let rest = 0;
  const columns = way.map((type, depth) => {
    const fanout = depth === 0 ? 1 : (fanouts[depth - 1] ?? 0);
    if (depth > 0) total *= fanout;
    const aliases = timesSeen.get(type) === 1 ? [type, `${chain}/${type}`] : [`${chain}/${type}`];
    const owned = sumOwned(document, aliases);
    // Counted from the top down: what a level leaves is split, and so are cells with a pinned one in them.
    const fromAbove = depth === 0 ? total : (rest + pins.split(depth - 1)) * fanout;
    const remains = fromAbove - pins.touched(depth) - owned;
    rest = Math.max(0, remains);
    return {
      path: aliases[0] ?? type,
      aliases,
      type,
      chain,
      gpus: fanouts.slice(depth, -1).reduce((product, count) => product * count, 1),
      isNode: document.types?.[type]?.node === true,
      total,
      owned,
      left: rest,
      missing: Math.max(0, -remains),
    };
  });
  return columns.map((column, depth) => ({ ...column, left: spare(column, columns.slice(depth)) }));
}

/** One more cell of a level takes its parts from every level below. */
function spare(column: Column, below: readonly Column[]): number {
  const possible = below.map(({ left, gpus }) => Math.floor((left * gpus) / Math.max(1, column.gpus)));
  return Math.min(...possible);
}

/** Pinned cells by depth: how many cells there contain or are a pinned one, and how many only contain some. */
function pinsWithin(document: CellDraft, tops: ReadonlySet<string>) {
  const touched: Set<string>[] = [];
  const pinned: Set<string>[] = [];
  for (const entry of Object.values(document.virtual_clusters ?? {}) as (VirtualCells | null)[]) {
    for (const address of Object.values(entry?.pinned ?? {})) {
      const steps = address.split("/");
      if (!tops.has(steps[0] ?? "")) continue;
      steps.forEach((_, depth) => (touched[depth] ??= new Set()).add(steps.slice(0, depth + 1).join("/")));
      (pinned[steps.length - 1] ??= new Set()).add(address);
    }
  }
  return {
    touched: (depth: number) => touched[depth]?.size ?? 0,
    split: (depth: number) => (touched[depth]?.size ?? 0) - (pinned[depth]?.size ?? 0),
  };
}

function sumOwned(document: CellDraft, paths: readonly string[]): number {
  let sum = 0;
  for (const entry of Object.values(document.virtual_clusters ?? {}) as (VirtualCells | null)[])
    for (const path of paths) sum += entry?.cells?.[path] ?? 0;
  return sum;
}

function strayPaths(document: CellDraft, written: ReadonlySet<string>): string[] {
  const entries = Object.values(document.virtual_clusters ?? {}) as (VirtualCells | null)[];
  return [...new Set(entries.flatMap((entry) => Object.keys(entry?.cells ?? {})))].filter((path) => !written.has(path));
}

function strayColumn(document: CellDraft, path: string): Column {
  const owned = sumOwned(document, [path]);
  return {
    path,
    aliases: [path],
    type: path,
    chain: null,
    gpus: 0,
    isNode: false,
    total: 0,
    owned,
    left: 0,
    missing: owned,
  };
}
