/** Waiting over time as two curves. Pure. */

import type { Anomalies } from "@/api/cell-types";
import type { ChartSeries } from "@/components/chart";

const SECONDS_PER_MINUTE = 60;

/** In minutes where somebody waited for some, else in seconds. */
export function delaySeries(points: Anomalies["series"]): { x: number[]; series: ChartSeries[] } {
  const sorted = [...points].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const most = Math.max(
    0,
    ...sorted.map(({ real_seconds, private_seconds }) => Math.max(real_seconds ?? 0, private_seconds ?? 0)),
  );
  const [scale, unit] = most >= 5 * SECONDS_PER_MINUTE ? [SECONDS_PER_MINUTE, "minutes"] : [1, "seconds"];
  const values = (seconds: (number | null)[]) => seconds.map((each) => (each === null ? null : each / scale));
  return {
    x: sorted.map(({ at }) => Date.parse(at) / 1000),
    series: [
      { label: `Here, ${unit}`, token: "crop-5", values: values(sorted.map(({ real_seconds }) => real_seconds)) },
      {
        label: `Alone, ${unit}`,
        token: "crop-1",
        dashed: true,
        values: values(sorted.map(({ private_seconds }) => private_seconds)),
      },
    ],
  };
}
