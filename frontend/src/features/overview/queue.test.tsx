import { screen } from "@testing-library/react";
import { expect, it, onTestFinished } from "vitest";

import { activeCounts, Queue } from "@/features/overview/queue";
import { live } from "@/live/live";
import { withRows } from "@/live/map-rows";
import { renderPage } from "@/testing/render";
import { aJob, aReason } from "@/testing/samples";
import { page, server } from "@/testing/server";

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

it("shows all that wait by what the map knows, and asks whole for the head of the line only", async () => {
  const jobs = Array.from({ length: 60 }, (_, place) =>
    aJob({ id: place + 1, name: `job-${place}`, position: place + 1 }),
  );
  const explained = [aReason({ message: "the quota is used up" })];
  server.on("GET /jobs", ({ query }) =>
    page((query.id ?? "").split(",").map((id) => ({ ...jobs[Number(id) - 1], reasons: explained }))),
  );
  const rows = jobs.map((job) => ({ ...job, reasons: undefined, spec: undefined }));
  // Files of tests share the store: another one may have left a job that is known whole.
  live.apply({ type: "forget" });
  live.apply({ type: "map", merge: (state) => withRows(state, "job", rows, state.job) });
  onTestFinished(() => live.apply({ type: "forget" }));
  await renderPage(() => <Queue loading={false} />);
  expect(screen.getByText("All 60 queued jobs")).toBeTruthy();
  expect(await screen.findAllByText("the quota is used up")).toHaveLength(20);
  expect(server.sent("GET /jobs").map(({ query }) => query.id)).toEqual([
    jobs
      .slice(0, 40)
      .map(({ id }) => id)
      .join(","),
  ]);
});
