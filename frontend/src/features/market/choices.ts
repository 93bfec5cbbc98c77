/** What a virtual cluster could offer: guaranteed GPUs that are counted, and cells, also parts of larger ones. Pure. */

import type { CellType, LotInputRequest, OwnedCells, VirtualCluster } from "@/api/schema";

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

type Types = Readonly<Record<string, CellType>>;

/** GPUs in one cell of a type; a GPU model is a cell of one. */
export function gpusIn(types: Types, type: string): number {
  const entry = types[type];
  return entry ? entry.count * gpusIn(types, entry.of) : 1;
}

export function choicesOf(
  cluster: VirtualCluster,
  types: Types,
  dividedModels: readonly string[],
  inForce: readonly OwnedCells[],
): Choice[] {
  const counted = Object.entries(cluster.own_guaranteed)
    .filter(([model, gpus]) => gpus > 0 && !dividedModels.includes(model))
    .map(([model, gpus]): Choice => {
      const used = cluster.usage[model]?.guaranteed_in_use ?? 0;
      const idle = Math.max(0, Math.min(gpus, (cluster.guaranteed[model] ?? 0) - used));
      return { part: "gpus", name: model, gpus: 1, owned: gpus, idle, within: "" };
    });
  return [...counted, ...cellChoices(cluster.cells, types, inForce)];
}

/** Its cells, the largest first; a type that it also owns itself is not named as part of another. */
function cellChoices(own: VirtualCluster["cells"], types: Types, inForce: readonly OwnedCells[]): Choice[] {
  const found = new Map<string, Choice>();
  const add = (name: string, gpus: number, owned: number, idle: number, within: string) => {
    const known = found.get(name);
    found.set(name, {
      part: "cells",
      name,
      gpus,
      owned: owned + (known?.owned ?? 0),
      idle: idle + (known?.idle ?? 0),
      within: name in own ? "" : within,
    });
  };
  const largestFirst = Object.entries(own)
    .map(([path, owned]) => ({ path, owned, type: path.slice(path.indexOf("/") + 1) }))
    .sort((a, b) => gpusIn(types, b.type) - gpusIn(types, a.type));
  for (const { path, owned, type } of largestFirst) {
    const chain = path.slice(0, path.length - type.length);
    const idle = Math.min(owned, freeOf(inForce, chain, type));
    add(path, gpusIn(types, type), owned, idle, "");
    let each = 1;
    for (let entry = types[type]; entry; entry = types[entry.of]) {
      each *= entry.count;
      add(chain + entry.of, gpusIn(types, entry.of), owned * each, idle * each, type);
    }
  }
  return [...found.values()].sort((a, b) => b.gpus - a.gpus || a.name.localeCompare(b.name));
}

/** Cells of a type that are free now; `chain` is empty, or the topmost type with a slash behind it. */
function freeOf(inForce: readonly OwnedCells[], chain: string, type: string): number {
  const same = inForce.filter(
    (cells) => !cells.pinned && cells.type === type && (!chain || `${cells.chain}/` === chain),
  );
  return same.reduce((sum, { free }) => sum + free, 0);
}

export function keyOf({ part, name }: Pick<Choice, "part" | "name">): string {
  return `${part}.${name}`;
}

/** What is to change hands, by the keys of choices. */
export function lotOf(counts: Readonly<Record<string, number | undefined>>): LotInputRequest {
  const lot: Required<LotInputRequest> = { gpus: {}, cells: {} };
  for (const [key, number] of Object.entries(counts)) {
    const dot = key.indexOf(".");
    if (number) lot[key.startsWith("cells.") ? "cells" : "gpus"][key.slice(dot + 1)] = number;
  }
  return lot;
}

export function gpusOf(choices: readonly Choice[], counts: Readonly<Record<string, number | undefined>>): number {
  return choices.reduce((sum, choice) => sum + choice.gpus * (counts[keyOf(choice)] ?? 0), 0);
}
