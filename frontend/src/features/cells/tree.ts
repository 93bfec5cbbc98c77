/** The tree of cells: names, the way to a cell, pages of children, and what the keys do. Pure. */

import type { Page } from "@/api/client";
import type { CellNode } from "@/api/schema";
import type { KEYS } from "@/ui/keys";

/** All children that were fetched, each once: a cell may come again when pages moved between two requests. */
export function cellsOf(pages: readonly Page<CellNode>[] | undefined): CellNode[] {
  const byAddress = new Map<string, CellNode>();
  for (const page of pages ?? []) for (const cell of page.results) byAddress.set(cell.address, cell);
  return [...byAddress.values()];
}

/** How many more there are: of a known parent by its count, else only whether there are any. */
export function moreText(shown: number, siblings: number | undefined): string {
  return siblings !== undefined && siblings > shown ? `Show more of ${siblings - shown} others` : "Show more";
}

/** A cell by its last step: "rack-1", "n3", "GPU 5"; numbers below a node are told with the type. */
export function labelOf(cell: Pick<CellNode, "address" | "type" | "gpu">): string {
  if (cell.gpu !== null) return `GPU ${cell.gpu}`;
  const step = lastStep(cell.address);
  return /^\d+$/.test(step) && cell.address.includes("/") ? `${cell.type} ${step}` : step;
}

function lastStep(address: string): string {
  return address.slice(address.lastIndexOf("/") + 1);
}

/** The address of the cell around one; undefined for a topmost cell. */
export function parentOf(address: string): string | undefined {
  const slash = address.lastIndexOf("/");
  return slash < 0 ? undefined : address.slice(0, slash);
}

/** Every cell on the way down to an address, itself included. */
export function trailOf(address: string | undefined): string[] {
  if (!address) return [];
  const steps = address.split("/");
  return steps.map((_, index) => steps.slice(0, index + 1).join("/"));
}

/** What a key asks for. `open` is null for a cell without children. */
export interface TreeItem {
  level: number;
  open: boolean | null;
}

export type Move = { focus: number } | { toggle: true } | null;

type TreeKey = keyof typeof KEYS.tree;

/** Arrow keys, Home and End as the tree pattern of WAI-ARIA has them. */
export function moveFor(key: TreeKey | undefined, items: readonly TreeItem[], at: number): Move {
  const item = items[at];
  if (!item) return null;
  switch (key) {
    case "next":
      return at + 1 < items.length ? { focus: at + 1 } : null;
    case "previous":
      return at > 0 ? { focus: at - 1 } : null;
    case "first":
      return { focus: 0 };
    case "last":
      return { focus: items.length - 1 };
    case "unfold":
      if (item.open === false) return { toggle: true };
      return item.open && (items[at + 1]?.level ?? 0) > item.level ? { focus: at + 1 } : null;
    case "fold": {
      if (item.open) return { toggle: true };
      const parent = items.slice(0, at).findLastIndex(({ level }) => level < item.level);
      return parent >= 0 ? { focus: parent } : null;
    }
    default:
      return null;
  }
}
