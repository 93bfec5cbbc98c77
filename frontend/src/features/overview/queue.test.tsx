import { expect, it } from "vitest";

import { activeCounts } from "@/features/overview/queue";
import { aJob } from "@/testing/samples";

it("counts the jobs that the queue lists: input workers belong to the job that they serve", () => {
  const jobs = [
    aJob({ id: 1, state: "queued" }),
    aJob({ id: 2, state: "queued", held: true }),
    aJob({ id: 3, state: "queued", serves: 4 }),
    aJob({ id: 4, state: "running" }),
    aJob({ id: 5, state: "succeeded" }),
  ];
  expect(activeCounts(jobs)).toEqual({ queued: 2, running: 1 });
});
