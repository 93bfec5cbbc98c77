import { describe, expect, it } from "vitest";

import type { ProgressPoint } from "@/api/schema";
import { differences, jobsIn, lastAndBest, metricsOfAll, overlay, type Run } from "@/features/compare/compare-model";
import { aJob } from "@/testing/samples";

function run(
  values: readonly (readonly [step: number, seconds: number, loss: number])[],
  start = "2026-01-01T00:00:00Z",
): Run {
  const at = (seconds: number) => new Date(Date.parse(start) + seconds * 1000).toISOString();
  const points = values.map(([step, seconds, loss]): ProgressPoint => ({
    attempt: 1,
    at: at(seconds),
    step,
    samples: null,
    values: { loss },
  }));
  return { startedAt: start, points };
}

const first = run([
  [1, 60, 0.9],
  [3, 600, 0.4],
  [5, 900, 0.5],
]);
const second = run(
  [
    [1, 30, 0.8],
    [2, 300, 0.3],
  ],
  "2026-02-01T00:00:00Z",
);

describe("curves of several runs", () => {
  it("lie over one another by step", () => {
    expect(overlay([first, second], "loss", "step")).toEqual({
      x: [1, 2, 3, 5],
      xLabel: "Step",
      curves: [
        [0.9, undefined, 0.4, 0.5],
        [0.8, 0.3, undefined, undefined],
      ],
    });
  });

  it("lie over one another by the time since each run's own start, in a unit that suits", () => {
    expect(overlay([first, second], "loss", "time")).toEqual({
      x: [0.5, 1, 5, 10, 15],
      xLabel: "Minutes since its start",
      curves: [
        [undefined, 0.9, undefined, 0.4, 0.5],
        [0.8, undefined, 0.3, undefined, undefined],
      ],
    });
    expect(overlay([{ startedAt: null, points: [] }], "loss", "time").x).toEqual([]);
  });

  it("end in the last value, and have a best one: the lowest loss, the highest accuracy", () => {
    expect(metricsOfAll([first, second])).toEqual(["loss"]);
    expect(lastAndBest(first, "loss")).toEqual({ last: 0.5, best: 0.4 });
    const points = [0.5, 0.9, 0.7].map((accuracy, step) => ({
      attempt: 1,
      at: first.startedAt ?? "",
      step,
      samples: null,
      values: { accuracy },
    }));
    expect(lastAndBest({ ...first, points }, "accuracy")).toEqual({ last: 0.7, best: 0.9 });
    expect(lastAndBest(first, "accuracy")).toBeNull();
  });
});

describe("differences of specifications", () => {
  const { spec } = aJob({});
  const [task] = spec.tasks;

  if (!task) throw new Error("The sample has no task.");

  it("name the fields, those of a task by its name, and leave out what is the same", () => {
    const other = {
      ...spec,
      time_limit: 60,
      tasks: [{ ...task, command: ["train", "--lr", "0.1"], resources: { ...task.resources, gpu: 8 } }],
    };
    expect(differences([spec, other, spec])).toEqual([
      { field: "tasks.main.resources.gpu", values: ["4", "8", "4"] },
      { field: "tasks.main.command", values: ['["true"]', '["train","--lr","0.1"]', '["true"]'] },
      { field: "time_limit", values: ["", "60", ""] },
    ]);
    expect(differences([spec, { ...spec }])).toEqual([]);
  });
});

describe("the address", () => {
  it("names each job once, and no more than can be compared", () => {
    expect(jobsIn("3,1,3,x,-2,0,1.5")).toEqual([3, 1]);
    expect(jobsIn("1,2,3,4,5,6,7,8,9,10")).toHaveLength(8);
    expect(jobsIn("")).toEqual([]);
  });
});
