/** Where each rack, node and GPU is drawn. Pure arithmetic in CSS pixels. */

import type { Bed, Plot, Rack } from "@/components/gpu-map/garden";

export interface Box {
  x: number;
  y: number;
  width: number;
  height: number;
}

export interface PlotBox extends Box {
  plot: Plot;
  column: number;
  row: number;
}

export interface BedBox extends Box {
  bed: Bed;
  plots: PlotBox[];
}

export interface RackBox extends Box {
  name: string;
  beds: BedBox[];
}

export interface GardenLayout {
  width: number;
  height: number;
  cell: number;
  /** Space for a node's name above its plots; 0 when plots are too small for names. */
  labelHeight: number;
  racks: RackBox[];
}

const SMALLEST_CELL = 5;
const CELL_SIZES = [56, 50, 46, 42, 38, 34, 30, 26, 22, 18, 15, 12, 10, 8, 6, SMALLEST_CELL];
const RACK_LABEL = 22;
const RACK_PADDING = 10;
const RACK_GAP = 12;
const MOST_COLUMNS = 16;
const NARROWEST_RACK = 48;
const LABELLED_CELL = 15;

/** The largest plots with which the whole garden is no higher than `preferredHeight`. */
export function layoutGarden(racks: readonly Rack[], width: number, preferredHeight: number): GardenLayout {
  const { cell, columns } = bestArrangement(racks, width, preferredHeight);
  const { boxes, ...size } = arrange(racks, width, cell, columns);
  return {
    ...size,
    cell,
    labelHeight: labelHeightOf(cell),
    racks: racks.map((rack, index) =>
      fillRack(rack, boxes[index] ?? { x: 0, y: 0, width: 0, height: 0 }, columns, cell),
    ),
  };
}

/**
 * Plot size and nodes side by side in a rack; among equal plot sizes the one that fills the width best,
 * and where nothing is low enough, the lowest.
 */
function bestArrangement(racks: readonly Rack[], width: number, preferredHeight: number) {
  const mostColumns = Math.min(MOST_COLUMNS, Math.max(1, ...racks.map((rack) => rack.beds.length)));
  let lowest = { cell: SMALLEST_CELL, columns: 1, height: Infinity };
  for (const cell of CELL_SIZES) {
    let widest: { cell: number; columns: number; used: number } | null = null;
    for (let columns = 1; columns <= mostColumns; columns += 1) {
      const size = arrange(racks, width, cell, columns);
      if (size.width > width) break;
      if (size.height <= preferredHeight && size.width > (widest?.used ?? 0))
        widest = { cell, columns, used: size.width };
      if (size.height < lowest.height) lowest = { cell, columns, height: size.height };
    }
    if (widest) return widest;
  }
  return lowest;
}

/** Racks from left to right, then in the next line, as text flows. */
function arrange(racks: readonly Rack[], width: number, cell: number, columns: number) {
  const boxes: Box[] = [];
  let x = 0;
  let y = 0;
  let lineHeight = 0;
  let used = 0;
  for (const rack of racks) {
    const grid = gridOf(rack, columns, cell);
    if (x > 0 && x + grid.width > width) {
      x = 0;
      y += lineHeight + RACK_GAP;
      lineHeight = 0;
    }
    boxes.push({ x, y, width: grid.width, height: grid.height });
    x += grid.width + RACK_GAP;
    used = Math.max(used, x - RACK_GAP);
    lineHeight = Math.max(lineHeight, grid.height);
  }
  return { width: used, height: y + lineHeight, boxes };
}

/** How a rack's nodes are arranged, and how large that makes it. */
function gridOf(rack: Rack, mostColumns: number, cell: number) {
  const bed = bedSize(Math.max(1, ...rack.beds.map(({ plots }) => plots.length)), cell);
  const gap = Math.max(3, Math.round(cell / 2.4));
  const columns = Math.max(1, Math.min(mostColumns, rack.beds.length));
  const rows = Math.ceil(rack.beds.length / columns);
  return {
    columns,
    stepX: bed.width + gap,
    stepY: bed.height + gap,
    width: Math.max(columns * (bed.width + gap) - gap, NARROWEST_RACK) + 2 * RACK_PADDING,
    height: RACK_LABEL + rows * (bed.height + gap) - gap + RACK_PADDING,
  };
}

function bedSize(gpus: number, cell: number) {
  const gap = gapOf(cell);
  const padding = Math.max(1, Math.round(cell / 6));
  const columns = columnsOf(gpus);
  const rows = Math.ceil(Math.max(1, gpus) / columns);
  return {
    columns,
    padding,
    width: columns * (cell + gap) - gap + 2 * padding,
    height: labelHeightOf(cell) + rows * (cell + gap) - gap + 2 * padding,
  };
}

function fillRack(rack: Rack, box: Box, columns: number, cell: number): RackBox {
  const grid = gridOf(rack, columns, cell);
  return {
    ...box,
    name: rack.name,
    beds: rack.beds.map((bed, index) =>
      fillBed(
        bed,
        box.x + RACK_PADDING + (index % grid.columns) * grid.stepX,
        box.y + RACK_LABEL + Math.floor(index / grid.columns) * grid.stepY,
        cell,
      ),
    ),
  };
}

function fillBed(bed: Bed, x: number, y: number, cell: number): BedBox {
  const size = bedSize(bed.plots.length, cell);
  const step = cell + gapOf(cell);
  return {
    bed,
    x,
    y,
    width: size.width,
    height: size.height,
    plots: bed.plots.map((plot, index) => {
      const column = index % size.columns;
      const row = Math.floor(index / size.columns);
      return {
        plot,
        column,
        row,
        x: x + size.padding + column * step,
        y: y + labelHeightOf(cell) + size.padding + row * step,
        width: cell,
        height: cell,
      };
    }),
  };
}

function labelHeightOf(cell: number): number {
  return cell >= LABELLED_CELL ? 16 : 0;
}

export function gapOf(cell: number): number {
  return cell >= 18 ? 3 : cell >= 10 ? 2 : 1;
}

function columnsOf(gpus: number): number {
  return gpus <= 4 ? Math.max(1, gpus) : gpus <= 8 ? 4 : 8;
}

export interface Hit {
  bed: BedBox;
  /** Null over a node's name or edge. */
  plot: PlotBox | null;
}

export function hitTest(layout: GardenLayout, x: number, y: number): Hit | null {
  const rack = layout.racks.find((box) => contains(box, x, y));
  const bed = rack?.beds.find((box) => contains(box, x, y));
  if (!bed) return null;
  return { bed, plot: bed.plots.find((box) => contains(box, x, y)) ?? null };
}

function contains(box: Box, x: number, y: number): boolean {
  return x >= box.x && x < box.x + box.width && y >= box.y && y < box.y + box.height;
}

export type Direction = "ArrowLeft" | "ArrowRight" | "ArrowUp" | "ArrowDown";

/** The plot that an arrow key leads to: the nearest in that direction, preferring the straight line. */
export function neighbour(layout: GardenLayout, from: Hit | null, direction: Direction): Hit | null {
  const all = layout.racks.flatMap((rack) => rack.beds.flatMap((bed) => bed.plots.map((plot) => ({ bed, plot }))));
  const start = from?.plot;
  if (!start) return all[0] ?? null;
  let best: Hit | null = null;
  let bestCost = Infinity;
  for (const candidate of all) {
    const dx = candidate.plot.x - start.x;
    const dy = candidate.plot.y - start.y;
    const forward = { ArrowLeft: -dx, ArrowRight: dx, ArrowUp: -dy, ArrowDown: dy }[direction];
    const sideways = Math.abs(direction === "ArrowLeft" || direction === "ArrowRight" ? dy : dx);
    if (forward <= 0 || (forward < sideways && sideways > 0)) continue;
    const cost = forward + sideways * 3;
    if (cost < bestCost) {
      best = candidate;
      bestCost = cost;
    }
  }
  return best ?? from;
}
