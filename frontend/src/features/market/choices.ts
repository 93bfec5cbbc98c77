/** What a virtual cluster could offer: guaranteed GPUs that are counted, and cells, also parts of larger ones. Pure. */

import type { CellTypeEntry, OwnedCells } from "@/api/cell-types";
import type { Lot } from "@/api/market-types";
import type { VirtualCluster } from "@/api/types";

export interface Choice {
  part: "gpus" | "cells";
  /** GPU model, or type of cell with its chain where that is needed. */
  name: string;
  gpus: number;
  owned: number;
  idle: number;
  /** The larger cell of which it would be a part, if there is no other. */
  within: string;
}

type Types = Readonly<Record<string, CellTypeEntry>>;

/** GPUs in one cell of a type; a GPU model is a cell of one. */
export function gpusIn(types: Types, type: string): number {
  const entry = types[type];
  return entry ? (entry.count ?? 1) * gpusIn(types, entry.of) : 1;
}

export function choicesOf(
  cluster: VirtualCluster,
  types: Types,
  dividedModels: readonly string[],
  cells: readonly OwnedCells[],
): Choice[] {
  const owned = cluster.own_guaranteed ?? cluster.guaranteed;
  const counted = Object.entries(owned)
    .filter(([model, gpus]) => gpus > 0 && !dividedModels.includes(model))
    .map(([model, gpus]): Choice => {
      const used = cluster.usage[model]?.guaranteed_in_use ?? 0;
      const idle = Math.max(0, Math.min(gpus, (cluster.guaranteed[model] ?? 0) - used));
      return { part: "gpus", name: model, gpus: 1, owned: gpus, idle, within: "" };
    });
  return [...counted, ...cellChoices(types, cells)];
}

function cellChoices(types: Types, cells: readonly OwnedCells[]): Choice[] {
  const found = new Map<string, Choice>();
  const add = (name: string, gpus: number, owned: number, idle: number, within: string) => {
    const known = found.get(name);
    found.set(name, {
      part: "cells",
      name,
      gpus,
      owned: owned + (known?.owned ?? 0),
      idle: idle + (known?.idle ?? 0),
      within: known && !known.within ? "" : within,
    });
  };
  // The smallest come last, and name themselves as what would be split.
  const lendable = cells.filter(({ pinned, owned }) => !pinned && owned > 0).sort((a, b) => b.gpus - a.gpus);
  const ownTypes = new Set(lendable.map(({ type }) => type));
  for (const { chain, type, gpus, owned, free } of lendable) {
    const pathOf = (name: string) => (isInSeveralChains(cells, name) ? `${chain}/${name}` : name);
    add(pathOf(type), gpus, owned, free, "");
    let each = 1;
    for (let entry = types[type]; entry; entry = types[entry.of]) {
      each *= entry.count ?? 1;
      add(pathOf(entry.of), gpus / each, owned * each, free * each, ownTypes.has(entry.of) ? "" : type);
    }
  }
  return [...found.values()].sort((a, b) => b.gpus - a.gpus || a.name.localeCompare(b.name));
}

function isInSeveralChains(cells: readonly OwnedCells[], type: string): boolean {
  return new Set(cells.filter((each) => each.type === type).map(({ chain }) => chain)).size > 1;
}

export function keyOf({ part, name }: Pick<Choice, "part" | "name">): string {
  return `${part}.${name}`;
}

/** What of the choices is to change hands. */
export function lotOf(choices: readonly Choice[], counts: Readonly<Record<string, number | undefined>>): Lot {
  const lot: Required<Lot> = { gpus: {}, cells: {} };
  for (const choice of choices) {
    const number = counts[keyOf(choice)];
    if (number) lot[choice.part][choice.name] = number;
  }
  return lot;
}

export function gpusOf(choices: readonly Choice[], counts: Readonly<Record<string, number | undefined>>): number {
  return choices.reduce((sum, choice) => sum + choice.gpus * (counts[keyOf(choice)] ?? 0), 0);
}
