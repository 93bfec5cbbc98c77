import { useMemo, useState } from "react";

import type { WholeAdvice } from "@/api/schema";
import { cellsText } from "@/components/cells/cell-use";
import { Chart } from "@/components/chart";
import { duration, timeUnit } from "@/components/format";
import { curveOf } from "@/features/advice/draft";
import { DataTable } from "@/ui/data-table";
import { Select } from "@/ui/field";
import { Panel } from "@/ui/layout";

/** The one of which there is most to see. */
function mostTried(curves: WholeAdvice["curves"]): string {
  const sorted = Object.entries(curves).sort(([, a], [, b]) => b.length - a.length);
  return sorted[0]?.[0] ?? "";
}

/** What each virtual cluster's jobs would wait with fewer or more cells. */
export function Curves({ curves }: { curves: WholeAdvice["curves"] }) {
  const names = Object.keys(curves).sort();
  const [chosen, setChosen] = useState("");
  const name = names.includes(chosen) ? chosen : mostTried(curves);
  const points = useMemo(() => curveOf(curves[name] ?? []), [curves, name]);
  const unit = timeUnit(Math.max(0, ...points.map((point) => point.delay_mean_seconds)));
  const series = [
    {
      label: `Mean delay, ${unit.name}`,
      token: "crop-4",
      values: points.map((point) => point.delay_mean_seconds / unit.seconds),
    },
  ];
  if (names.length === 0) return null;
  return (
    <Panel
      title={`Mean delay in ${unit.name}, over cells`}
      flush
      actions={
        <Select
          aria-label="Virtual cluster"
          value={name}
          onChange={(event) => setChosen(event.target.value)}
          options={names.map((each) => ({ value: each, label: each }))}
        />
      }
    >
      {points.length > 1 && (
        <Chart
          label={`Mean delay of ${name} in ${unit.name} by the number of its GPUs`}
          x={points.map(({ gpus }) => gpus)}
          series={series}
          isTime={false}
          xLabel="GPUs"
          ceiling={1}
        />
      )}
      <DataTable
        label={`Choices of ${name}`}
        rows={points}
        rowKey={({ gpus }) => gpus}
        columns={[
          { header: "Cells", cell: ({ cells }) => cellsText(cells) },
          { header: "GPUs", isNumeric: true, cell: ({ gpus }) => gpus },
          { header: "Mean delay", isNumeric: true, cell: (point) => duration(point.delay_mean_seconds) },
        ]}
      />
    </Panel>
  );
}
