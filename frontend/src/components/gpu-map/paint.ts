/** Draws the garden on a canvas. Everything is plain rectangles, so ten thousand plots take a few milliseconds. */

import { isClosed, jobsOn, unseenPart, type Plot } from "@/components/gpu-map/garden";
import { gapOf, type BedBox, type GardenLayout, type Hit, type PlotBox } from "@/components/gpu-map/layout";
import { CROPS, tenantSlots } from "@/components/tenant-colour";

export type ColourBy = "tenant" | "state" | "job";

export interface Palette {
  surface: string;
  soil: string;
  soilLine: string;
  free: string;
  ink: string;
  muted: string;
  line: string;
  failed: string;
  off: string;
  none: string;
  starting: string;
  running: string;
  stopping: string;
  crops: string[];
  font: string;
}

export function readPalette(colour: (token: string) => string): Palette {
  return {
    surface: colour("surface"),
    soil: colour("soil"),
    soilLine: colour("soil-line"),
    free: colour("plot-free"),
    ink: colour("ink"),
    muted: colour("ink-muted"),
    line: colour("line-strong"),
    failed: colour("state-failed"),
    off: colour("state-off"),
    none: colour("crop-none"),
    starting: colour("state-starting"),
    running: colour("state-running"),
    stopping: colour("state-stopping"),
    crops: Array.from({ length: CROPS }, (_, index) => colour(`crop-${index + 1}`)),
    font: colour("font-text"),
  };
}

export type PlotColour = (plot: Plot) => string;

export function plotColour(palette: Palette, by: ColourBy, tenants: Iterable<string>): PlotColour {
  const slots = tenantSlots(tenants);
  return ({ job, state }) => {
    if (by === "state") {
      if (state === "starting" || state === "running" || state === "stopping") return palette[state];
      return palette.none;
    }
    if (!job) return palette.none;
    // Neighbouring job ids get distant colours.
    const slot = by === "tenant" ? (slots.get(job.tenant) ?? 1) - 1 : (job.id * 3) % CROPS;
    return palette.crops[slot] ?? palette.none;
  };
}

type Pen = CanvasRenderingContext2D;

export function paintGarden(pen: Pen, layout: GardenLayout, palette: Palette, colourOf: PlotColour): void {
  for (const rack of layout.racks) {
    pen.fillStyle = palette.soil;
    roundedBox(pen, rack.x, rack.y, rack.width, rack.height, 8);
    pen.fill();
    pen.fillStyle = palette.muted;
    pen.font = `600 12px ${palette.font}`;
    pen.textBaseline = "alphabetic";
    pen.fillText(cut(pen, rack.name, rack.width - 20), rack.x + 10, rack.y + 15);
    for (const bed of rack.beds) paintBed(pen, bed, layout, palette, colourOf);
  }
}

function paintBed(pen: Pen, box: BedBox, layout: GardenLayout, palette: Palette, colourOf: PlotColour): void {
  const { node } = box.bed;
  const { cell, labelHeight } = layout;
  const top = box.y + labelHeight;
  if (labelHeight > 0) {
    pen.font = `500 11px ${palette.font}`;
    pen.fillStyle = node.state === "lost" ? palette.failed : palette.muted;
    pen.fillText(cut(pen, node.name, box.width), box.x, box.y + 11);
  }
  pen.fillStyle = palette.surface;
  roundedBox(pen, box.x, top, box.width, box.height - labelHeight, cell >= 12 ? 4 : 1.5);
  pen.fill();
  if (node.state !== "ready" || isClosed(node)) {
    pen.strokeStyle = node.state === "ready" ? palette.line : palette.failed;
    pen.lineWidth = 1.25;
    pen.setLineDash([4, 3]);
    pen.stroke();
    pen.setLineDash([]);
  }
  for (const plot of box.plots) paintPlot(pen, plot, box, cell, palette, colourOf);
}

function paintPlot(pen: Pen, box: PlotBox, bed: BedBox, cell: number, palette: Palette, colourOf: PlotColour): void {
  const { plot, x, y } = box;
  if (plot.state === "offline" || plot.state === "unhealthy") {
    pen.fillStyle = palette.soil;
    pen.fillRect(x, y, cell, cell);
    cross(pen, x, y, cell, palette.failed);
    return;
  }
  const isShared = plot.sharers.length > 0;
  if (isShared || plot.state === "free" || plot.state === "planned" || plot.state === "closed") {
    pen.fillStyle = palette.free;
    pen.fillRect(x, y, cell, cell);
    pen.strokeStyle = palette.soilLine;
    pen.lineWidth = 1;
    pen.strokeRect(x + 0.5, y + 0.5, cell - 1, cell - 1);
    if (isShared) paintSharers(pen, box, cell, palette, colourOf);
  } else {
    pen.fillStyle = colourOf(plot);
    pen.fillRect(x, y, cell, cell);
    joinNeighbours(pen, box, bed, cell);
    paintJob(pen, plot, x, y, cell, cell, palette);
  }
  if (plot.successor) {
    pen.fillStyle = colourOf({ ...plot, job: plot.successor, state: "starting" });
    const size = Math.max(3, cell * 0.45);
    pen.beginPath();
    pen.moveTo(x + cell, y + cell - size);
    pen.lineTo(x + cell, y + cell);
    pen.lineTo(x + cell - size, y + cell);
    pen.fill();
  }
}

/** A shared GPU is filled from the bottom by those who have it, each as high as its part. */
function paintSharers(pen: Pen, box: PlotBox, cell: number, palette: Palette, colourOf: PlotColour): void {
  const { plot, x } = box;
  let bottom = box.y + cell;
  const fill = (part: number, colour: string) => {
    const height = Math.min(part * cell, bottom - box.y);
    bottom -= height;
    pen.fillStyle = colour;
    pen.fillRect(x, bottom, cell, Math.max(1, height - (cell >= 8 ? 1 : 0)));
    return height;
  };
  for (const { job, part } of plot.sharers) {
    const state = job.attempt?.state;
    const shown = { ...plot, job, state: state === "starting" || state === "stopping" ? state : ("running" as const) };
    const height = fill(part, colourOf(shown));
    if (height >= 6) paintJob(pen, shown, x, bottom, cell, height - 1, palette);
  }
  const unseen = unseenPart(plot);
  if (unseen * cell >= 0.5) fill(unseen, palette.none);
}

/** What is drawn on a job's colour. */
function paintJob(
  pen: Pen,
  { job, state }: Plot,
  x: number,
  y: number,
  width: number,
  height: number,
  { surface }: Palette,
): void {
  if (width < 8) return;
  if (job?.guarantee === "opportunistic") furrows(pen, x, y, width, height, surface);
  if (state === "starting") notch(pen, x, y, width, height, surface, "top");
  if (state === "stopping") notch(pen, x, y, width, height, surface, "bottom");
}

/** A gang grows together: the path between two plots of one job is planted too. */
function joinNeighbours(pen: Pen, box: PlotBox, bed: BedBox, cell: number): void {
  const gap = gapOf(cell);
  const { job } = box.plot;
  if (!job) return;
  const isJoined = (other: PlotBox | undefined) => other?.plot.job?.id === job.id && other.plot.sharers.length === 0;
  const right = bed.plots.find((other) => other.row === box.row && other.column === box.column + 1);
  const below = bed.plots.find((other) => other.column === box.column && other.row === box.row + 1);
  const joinsRight = isJoined(right);
  const joinsBelow = isJoined(below);
  if (joinsRight) pen.fillRect(box.x + cell, box.y, gap, cell);
  if (joinsBelow) pen.fillRect(box.x, box.y + cell, cell, gap);
  const across = bed.plots.find((other) => other.column === box.column + 1 && other.row === box.row + 1);
  if (joinsRight && joinsBelow && isJoined(across)) pen.fillRect(box.x + cell, box.y + cell, gap, gap);
}

/** Opportunistic work is drawn as loose rows: it gives way. */
function furrows(pen: Pen, x: number, y: number, cell: number, height: number, colour: string): void {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, cell, height);
  pen.clip();
  pen.strokeStyle = colour;
  pen.globalAlpha = 0.5;
  pen.lineWidth = Math.max(1, cell / 12);
  pen.beginPath();
  for (let offset = cell / 3; offset < cell * 2; offset += cell / 3) {
    pen.moveTo(x + offset, y);
    pen.lineTo(x + offset - cell, y + cell);
  }
  pen.stroke();
  pen.restore();
}

function notch(
  pen: Pen,
  x: number,
  y: number,
  width: number,
  height: number,
  colour: string,
  side: "top" | "bottom",
): void {
  pen.fillStyle = colour;
  const depth = Math.max(2, Math.min(width, height) / 6);
  pen.fillRect(x + width / 4, side === "top" ? y : y + height - depth, width / 2, depth);
}

function cross(pen: Pen, x: number, y: number, cell: number, colour: string): void {
  const inset = cell * 0.28;
  pen.strokeStyle = colour;
  pen.lineWidth = Math.max(1, cell / 14);
  pen.beginPath();
  pen.moveTo(x + inset, y + inset);
  pen.lineTo(x + cell - inset, y + cell - inset);
  pen.moveTo(x + cell - inset, y + inset);
  pen.lineTo(x + inset, y + cell - inset);
  pen.stroke();
}

/** Outlines what the pointer or the keyboard is on, and everything else its jobs hold. */
export function paintHighlight(pen: Pen, layout: GardenLayout, palette: Palette, hit: Hit): void {
  const ids = new Set(hit.plot ? jobsOn(hit.plot.plot).map(({ id }) => id) : []);
  pen.strokeStyle = palette.ink;
  pen.lineWidth = layout.cell >= 12 ? 2 : 1.5;
  if (ids.size > 0) {
    for (const rack of layout.racks) {
      for (const bed of rack.beds) {
        for (const plot of bed.plots) if (jobsOn(plot.plot).some(({ id }) => ids.has(id))) outline(pen, plot, 0.5);
      }
    }
  }
  if (hit.plot) {
    pen.lineWidth += 1;
    outline(pen, hit.plot, 2);
  }
}

function outline(pen: Pen, box: PlotBox, margin: number): void {
  pen.strokeRect(box.x - margin, box.y - margin, box.width + 2 * margin, box.height + 2 * margin);
}

function roundedBox(pen: Pen, x: number, y: number, width: number, height: number, radius: number): void {
  pen.beginPath();
  pen.roundRect(x, y, width, height, radius);
}

/** The text, shortened with an ellipsis until it fits. */
function cut(pen: Pen, text: string, width: number): string {
  if (pen.measureText(text).width <= width) return text;
  let kept = text.length - 1;
  while (kept > 0 && pen.measureText(`${text.slice(0, kept)}…`).width > width) kept -= 1;
  return kept > 0 ? `${text.slice(0, kept)}…` : "";
}
