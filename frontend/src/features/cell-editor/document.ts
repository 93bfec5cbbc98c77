/** The document of a specification of cells as the form edits it: every change gives a new document. Pure. */

import { Document, isCollection, isMap, isPair, isSeq } from "yaml";

import type { CellDocument, CellType, PhysicalCell, VirtualCells } from "@/api/schema";

type DraftType = Pick<CellType, "of"> & Partial<CellType>;
export type DraftPhysical = Pick<PhysicalCell, "type"> & Partial<PhysicalCell>;

/** A specification of cells while it is written: it may lack what the server will ask for. */
export interface CellDraft extends Pick<CellDocument, "virtual_clusters"> {
  types?: Record<string, DraftType>;
  physical?: DraftPhysical[];
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  value !== null && typeof value === "object" && !Array.isArray(value);
const isAbsentOr = (value: unknown, test: (value: unknown) => boolean) => value == null || test(value);
const mapOf = (test: (value: unknown) => boolean) => (value: unknown) =>
  isObject(value) && Object.values(value).every(test);
const listOf = (test: (value: unknown) => boolean) => (value: unknown) => Array.isArray(value) && value.every(test);
const isText = (value: unknown) => typeof value === "string";
const isNumber = (value: unknown) => typeof value === "number";

/** Whether the form can show it: the parts have the right form, whatever they mean. The server judges the rest. */
export function isDocument(data: unknown): data is CellDraft {
  if (!isObject(data)) return false;
  return (
    isAbsentOr(data.types, mapOf(isObject)) &&
    isAbsentOr(
      data.physical,
      listOf(
        (entry) =>
          isObject(entry) &&
          isAbsentOr(entry.nodes, listOf(isText)) &&
          isAbsentOr(entry.gpus, mapOf(listOf(isNumber))) &&
          isAbsentOr(entry.name, isText),
      ),
    ) &&
    isAbsentOr(
      data.virtual_clusters,
      mapOf(
        (entry) =>
          isAbsentOr(entry, isObject) &&
          isAbsentOr((entry as VirtualCells | null)?.cells, mapOf(isNumber)) &&
          isAbsentOr((entry as VirtualCells | null)?.pinned, mapOf(isText)),
      ),
    )
  );
}

// Types

export function typesOf(document: CellDraft): [string, DraftType][] {
  return Object.entries(document.types ?? {});
}

export function addType(document: CellDraft, leaf: string): CellDraft {
  const names = Object.keys(document.types ?? {});
  const name = freshName("type", names);
  return { ...document, types: { ...document.types, [name]: { of: names.at(-1) ?? leaf, count: 2 } } };
}

/** What is undefined is left out: the server says that it is missing. */
export function changeType(document: CellDraft, name: string, changed: Partial<DraftType>): CellDraft {
  const entry = document.types?.[name];
  if (!entry) return document;
  const next = { ...entry, ...changed };
  if (next.count === undefined) delete next.count;
  if (!next.node) delete next.node;
  return { ...document, types: { ...document.types, [name]: next } };
}

export function removeType(document: CellDraft, name: string): CellDraft {
  return { ...document, types: without(document.types, name) };
}

/** Everything that was of the old name is of the new one; the order stays. */
export function renameType(document: CellDraft, from: string, to: string): CellDraft {
  const rename = (name: string) => (name === from ? to : name);
  const renamePath = (path: string) => path.split("/").map(rename).join("/");
  return {
    ...document,
    types: mapEntries(document.types, (name, entry) => [rename(name), { ...entry, of: rename(entry.of) }]),
    physical: (document.physical ?? []).map((entry) => ({ ...entry, type: rename(entry.type) })),
    virtual_clusters: mapEntries(document.virtual_clusters, (name, entry: VirtualCells | null) => [
      name,
      { ...entry, cells: mapEntries(entry?.cells, (path, count) => [renamePath(path), count]) },
    ]),
  };
}

// Hardware

export function addPhysical(document: CellDraft): CellDraft {
  const physical = document.physical ?? [];
  const name = freshName(
    "cell",
    physical.map((entry) => entry.name ?? ""),
  );
  const type = physical.at(-1)?.type ?? Object.keys(document.types ?? {}).at(-1) ?? "";
  return { ...document, physical: [...physical, { type, name, nodes: [] }] };
}

export function changePhysical(document: CellDraft, index: number, changed: Partial<DraftPhysical>): CellDraft {
  const physical = (document.physical ?? []).map((entry, at) => (at === index ? { ...entry, ...changed } : entry));
  return { ...document, physical };
}

export function removePhysical(document: CellDraft, index: number): CellDraft {
  return { ...document, physical: (document.physical ?? []).filter((_, at) => at !== index) };
}

/** Hardware and types of one document, and what virtual clusters own of another. */
export function withHardwareOf(document: CellDraft, hardware: CellDraft): CellDraft {
  return {
    types: hardware.types ?? {},
    physical: hardware.physical ?? [],
    virtual_clusters: document.virtual_clusters ?? {},
  };
}

// Virtual clusters

/** Own `count` cells of a path; undefined or 0 is none. `aliases` are other ways to write the same path. */
export function setCells(
  document: CellDraft,
  cluster: string,
  path: string,
  count: number | undefined,
  aliases: readonly string[] = [],
): CellDraft {
  const cells = { ...document.virtual_clusters?.[cluster]?.cells };
  const written = aliases.find((alias) => alias in cells) ?? path;
  for (const alias of aliases) if (alias !== written) Reflect.deleteProperty(cells, alias);
  if (count) cells[written] = count;
  else Reflect.deleteProperty(cells, written);
  return withVirtual(document, cluster, { ...document.virtual_clusters?.[cluster], cells });
}

export interface Pinned {
  cluster: string;
  name: string;
  address: string;
}

export function pinnedOf(document: CellDraft): Pinned[] {
  return Object.entries(document.virtual_clusters ?? {}).flatMap(([cluster, entry]: [string, VirtualCells | null]) =>
    Object.entries(entry?.pinned ?? {}).map(([name, address]) => ({ cluster, name, address })),
  );
}

export function addPinned(document: CellDraft, cluster: string): CellDraft {
  const name = freshName("pinned", Object.keys(document.virtual_clusters?.[cluster]?.pinned ?? {}));
  return setPinned(document, null, { cluster, name, address: "" });
}

/** Replace one pinned cell by another; null on either side adds or removes. */
export function setPinned(document: CellDraft, old: Pinned | null, next: Pinned | null): CellDraft {
  let changed = document;
  if (old !== null && old.cluster === next?.cluster) {
    const pinned = mapEntries(changed.virtual_clusters?.[old.cluster]?.pinned, (name, address) =>
      name === old.name ? [next.name, next.address] : [name, address],
    );
    return withVirtual(changed, old.cluster, { ...changed.virtual_clusters?.[old.cluster], pinned });
  }
  if (old) {
    const entry = changed.virtual_clusters?.[old.cluster];
    changed = withVirtual(changed, old.cluster, { ...entry, pinned: without(entry?.pinned, old.name) });
  }
  if (next) {
    const entry = changed.virtual_clusters?.[next.cluster];
    changed = withVirtual(changed, next.cluster, { ...entry, pinned: { ...entry?.pinned, [next.name]: next.address } });
  }
  return changed;
}

/** A virtual cluster that owns nothing is not named. */
function withVirtual(document: CellDraft, cluster: string, entry: VirtualCells): CellDraft {
  const kept: VirtualCells = {
    ...(isEmpty(entry.cells) ? {} : { cells: entry.cells }),
    ...(isEmpty(entry.pinned) ? {} : { pinned: entry.pinned }),
  };
  const virtual_clusters = isEmpty(kept)
    ? without(document.virtual_clusters, cluster)
    : { ...document.virtual_clusters, [cluster]: kept };
  return { ...document, virtual_clusters };
}

function isEmpty(value: object | undefined): boolean {
  return value === undefined || Object.keys(value).length === 0;
}

function without<V>(map: Readonly<Record<string, V>> | undefined, name: string): Record<string, V> {
  return Object.fromEntries(Object.entries(map ?? {}).filter(([key]) => key !== name));
}

function mapEntries<V, W>(
  map: Readonly<Record<string, V>> | undefined,
  change: (name: string, value: V) => [string, W],
): Record<string, W> {
  return Object.fromEntries(Object.entries(map ?? {}).map(([name, value]) => change(name, value)));
}

function freshName(stem: string, taken: readonly string[]): string {
  let number = 1;
  while (taken.includes(`${stem}-${number}`)) number += 1;
  return `${stem}-${number}`;
}

export function writeCells(cells: CellDraft): string {
  const document = new Document({ types: {}, physical: [], virtual_clusters: {}, ...cells });
  for (const part of ["types", "physical", "virtual_clusters"]) {
    const entries = document.get(part);
    const values = isMap(entries)
      ? entries.items.map((pair) => isPair(pair) && pair.value)
      : isSeq(entries)
        ? entries.items
        : [];
    for (const value of values) if (isCollection(value)) value.flow = true;
  }
  return document.toString({ lineWidth: 0, flowCollectionPadding: false });
}
