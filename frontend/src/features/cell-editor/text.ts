/** A specification of cells as YAML text, one line for each type, topmost cell and virtual cluster. Pure. */

import { Document, isCollection, isMap, isPair, isSeq } from "yaml";

import type { CellDraft } from "@/features/cell-editor/document";

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
