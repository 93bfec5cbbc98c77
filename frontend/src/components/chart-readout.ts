/** What the curves of a chart say at one place. Pure. */

import type { ChartSeries } from "@/components/chart";

export interface Reading {
  label: string;
  token: string;
  dashed: boolean;
  /** With the lowest and the highest of what it is the mean of. */
  text: string;
}

/** One line for each curve that has a value there; of a stack's layer the height of the layer alone. */
export function readingsAt(series: readonly ChartSeries[], index: number): Reading[] {
  return series.flatMap(({ label, token, values, band, stacked, dashed = false }, place) => {
    const value = values[index];
    if (value == null) return [];
    const below = stacked && series[place + 1]?.stacked ? (series[place + 1]?.values[index] ?? 0) : 0;
    const low = band?.low[index];
    const high = band?.high[index];
    const range = low == null || high == null || low === high ? "" : ` (${figure(low)} – ${figure(high)})`;
    return [{ label, token, dashed, text: figure(value - below) + range }];
  });
}

const format = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 4 });

function figure(value: number): string {
  return format.format(value);
}

/**
 * Where a box beside the pointer lies, as CSS: in the quarter of the window that has most room, so that no edge cuts
 * it off. Pixels of the window.
 */
export function placeBeside(
  { x, y }: { x: number; y: number },
  { width, height }: { width: number; height: number },
  distance = 14,
): Partial<Record<"left" | "right" | "top" | "bottom", number>> {
  return {
    ...(x < width / 2 ? { left: x + distance } : { right: width - x + distance }),
    ...(y < height / 2 ? { top: y + distance } : { bottom: height - y + distance }),
  };
}
