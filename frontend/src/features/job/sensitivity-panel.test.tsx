import { screen } from "@testing-library/react";
import { expect, it, vi } from "vitest";

import type { JobSensitivity } from "@/api/schema";
import { gainText, measuredText, SensitivityPanel } from "@/features/job/sensitivity-panel";
import { renderPage, rowsOf } from "@/testing/render";
import { aJob } from "@/testing/samples";
import { server } from "@/testing/server";

// Curves are drawn on a canvas, which only a browser has.
vi.mock("@/components/chart", () => ({
  Chart: ({
    label,
    x,
    series,
    marks,
  }: {
    label: string;
    x: number[];
    series: { values: number[] }[];
    marks?: number[];
  }) => (
    <div role="img" aria-label={label}>
      {[x, ...series.map(({ values }) => values), marks ?? []].map((row) => row.join(" ")).join(" | ")}
    </div>
  ),
  ChartKey: () => null,
}));

const TASK: JobSensitivity["tasks"][number] = {
  task: "train",
  by_cpus: [
    { amount: 0, speed: 0, marks: [] },
    { amount: 3, speed: 1, marks: ["proportional"] },
    { amount: 9, speed: 2.5, marks: ["now", "best"] },
  ],
  by_memory: [],
  measured: null,
  now: { rank: 0, cpus: 9, memory_bytes: 0, speed: 2.5 },
  proportional: { rank: 0, cpus: 3, memory_bytes: 0, speed: 1 },
};
const hungry = aJob({
  id: 1,
  spec: {
    ...aJob({ id: 1 }).spec,
    tasks: aJob({ id: 1 }).spec.tasks.map((task) => ({ ...task, sensitivity: { cpu: { "3": 1, "9": 2.5 } } })),
  },
});

it("draws the curve with today's point and the proportional share, and says the same in a table", async () => {
  server.on("GET /jobs/1/sensitivity", { attempt: 2, tasks: [TASK] });
  await renderPage(() => <SensitivityPanel job={hungry} />);
  const chart = await screen.findByRole("img", { name: "Speed of train by CPUs" });
  expect(chart.textContent).toBe("0 3 9 | 0 1 2.5 | 1 1 1 | 9");
  expect(rowsOf(screen.getByRole("table", { name: "Speed of train by CPUs" }))).toEqual([
    ["0", "0.00", ""],
    ["3", "1.00", "proportional share"],
    ["9", "2.50", "today, as fast as it can be"],
  ]);
  expect(screen.getByText("2.50 times as fast as with its proportional share.")).toBeTruthy();
  expect(screen.queryByRole("table", { name: /by Memory/ })).toBeNull();
});

it("shows the curve alone before the job ran", async () => {
  const points = TASK.by_cpus.map((point) => ({ ...point, marks: [] }));
  const memory = [{ amount: 2 ** 31, speed: 1, marks: [] }];
  const waiting = { ...TASK, by_cpus: points, by_memory: memory, now: null, proportional: null };
  server.on("GET /jobs/1/sensitivity", { attempt: null, tasks: [waiting] });
  await renderPage(() => <SensitivityPanel job={hungry} />);
  const chart = await screen.findByRole("img", { name: "Speed of train by CPUs" });
  expect(chart.textContent).toBe("0 3 9 | 0 1 2.5 | ");
  expect(screen.getByRole("img", { name: "Speed of train by Memory" }).textContent).toBe("2 | 1 | ");
  expect(rowsOf(screen.getByRole("table", { name: "Speed of train by Memory" }))).toEqual([["2 GiB", "1.00", ""]]);
  expect(screen.getByText(/It has not run yet/)).toBeTruthy();
});

it("asks nothing and shows nothing for a job that states no curve", async () => {
  await renderPage(() => <SensitivityPanel job={aJob({ id: 1 })} />);
  expect(screen.queryByText("Speed by CPUs and memory")).toBeNull();
});

it("says that the platform finds the curve, and how far it is", async () => {
  const tasks = aJob({ id: 1 }).spec.tasks.map((task) => ({
    ...task,
    resources: { ...task.resources, measure_cpu: true },
  }));
  const spec = { ...hungry.spec, tasks };
  const measured = { gpu_model: "V100", trials: 3, is_over: false };
  server.on("GET /jobs/1/sensitivity", { attempt: 1, tasks: [{ ...TASK, measured }] });
  await renderPage(() => <SensitivityPanel job={aJob({ id: 1, spec })} />);
  expect(await screen.findByText("Its CPUs are being measured on V100: 3 trials so far.")).toBeTruthy();
  expect(measuredText({ ...measured, trials: 1, is_over: true })).toBe("Its CPUs were measured on V100, in 1 trial.");
  expect(measuredText({ ...measured, gpu_model: "" })).toBe("Its CPUs are measured while it runs.");
});

it("says plainly when more is of no use", () => {
  expect(gainText({ ...TASK, now: TASK.proportional })).toBe("As fast as with a proportional share.");
});
