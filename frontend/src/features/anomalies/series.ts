/** Waiting over time as two curves. Pure. */

import type { Anomalies } from "@/api/schema";
import type { ChartSeries } from "@/components/chart";
import { timeUnit } from "@/components/format";

export function delaySeries(points: Anomalies["series"]): { x: number[]; series: ChartSeries[] } {
  const sorted = [...points].sort((a, b) => Date.parse(a.at) - Date.parse(b.at));
  const longest = sorted.map(({ real_seconds, private_seconds }) => Math.max(real_seconds, private_seconds));
  const unit = timeUnit(Math.max(0, ...longest));
  const values = (seconds: number[]) => seconds.map((each) => each / unit.seconds);
  return {
    x: sorted.map(({ at }) => Date.parse(at) / 1000),
    series: [
      { label: `Here, ${unit.name}`, token: "crop-5", values: values(sorted.map(({ real_seconds }) => real_seconds)) },
      {
        label: `Alone, ${unit.name}`,
        token: "crop-1",
        dashed: true,
        values: values(sorted.map(({ private_seconds }) => private_seconds)),
      },
    ],
  };
}
