import { useMemo, useState } from "react";

import type { Advice } from "@/api/cell-types";
import { cellsText } from "@/components/cells/cell-use";
import { Chart } from "@/components/chart";
import { duration } from "@/components/format";
import { curveOf } from "@/features/advice/draft";
import { Select } from "@/ui/field";
import { numeric, Panel, TableFrame } from "@/ui/layout";

/** What each virtual cluster's jobs would wait with fewer or more cells. */
export function Curves({ curves }: { curves: Advice["curves"] }) {
  const names = Object.keys(curves).sort();
  const [chosen, setChosen] = useState("");
  const name = names.includes(chosen) ? chosen : (names[0] ?? "");
  const points = useMemo(() => curveOf(curves[name] ?? []), [curves, name]);
  const series = useMemo(
    () => [
      {
        label: "Mean delay, minutes",
        token: "crop-4",
        values: points.map(({ delay_mean_seconds: seconds }) => (seconds === null ? null : seconds / 60)),
      },
    ],
    [points],
  );
  if (names.length === 0) return null;
  return (
    <Panel
      title="Delay over cells"
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
          label={`Mean delay of ${name} by the number of its GPUs`}
          x={points.map(({ gpus }) => gpus)}
          series={series}
          isTime={false}
          xLabel="GPUs"
          ceiling={1}
        />
      )}
      <TableFrame label={`Choices of ${name}`}>
        <thead>
          <tr>
            <th>Cells</th>
            <th className={numeric}>GPUs</th>
            <th className={numeric}>Mean delay</th>
          </tr>
        </thead>
        <tbody>
          {points.map((point) => (
            <tr key={point.gpus}>
              <td>{cellsText(point.cells)}</td>
              <td className={numeric}>{point.gpus}</td>
              <td className={numeric}>
                {point.delay_mean_seconds === null ? "never starts" : duration(point.delay_mean_seconds)}
              </td>
            </tr>
          ))}
        </tbody>
      </TableFrame>
    </Panel>
  );
}
