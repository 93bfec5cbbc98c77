import { screen } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import type { JobInputWorkers } from "@/api/schema";
import { InputWorkersPanel } from "@/features/job/input-workers-panel";
import { renderPage } from "@/testing/render";
import { aJob } from "@/testing/samples";
import { server } from "@/testing/server";

const ANSWER: JobInputWorkers = {
  desired: 3,
  running: 1,
  connected: 1,
  stall: 0.25,
  skipped: null,
  problem: "Tenant vision has 9 unfinished jobs.",
  workers: [
    { job: 8, state: "running", started_at: "2026-11-25T10:00:00Z", node: "cpus-1" },
    { job: 9, state: "queued", started_at: null, node: null },
  ],
};

function withWorkers() {
  const job = aJob({ id: 7 });
  const input_workers = { command: ["true"], min: 1, max: 4, cpu: 1, memory: 2 ** 30 };
  return { ...job, spec: { ...job.spec, input_workers } };
}

describe("The input workers of a job", () => {
  it("are shown with what is desired, what its trainer waits, and why there are no more", async () => {
    server.on("GET /jobs/7/input-workers", ANSWER);
    await renderPage(() => <InputWorkersPanel job={withWorkers()} />);
    expect(await screen.findByText("1 of 3 desired (1 to 4)")).toBeTruthy();
    expect(screen.getByText("25 % of the time")).toBeTruthy();
    expect(screen.getByText("Tenant vision has 9 unfinished jobs.")).toBeTruthy();
    const link = screen.getByRole("link", { name: "9" });
    expect(link.getAttribute("href")).toBe("/jobs/9");
    expect(link.parentElement?.textContent).toBe("8 on cpus-1, 9 waits");
  });

  it("say how many batches of a shared stream the trainer skipped, and else nothing of it", async () => {
    server.on("GET /jobs/7/input-workers", { ...ANSWER, skipped: 1234 });
    await renderPage(() => <InputWorkersPanel job={withWorkers()} />);
    const label = await screen.findByText("Batches skipped of the shared stream");
    expect(label.parentElement?.textContent).toContain("1,234");
  });

  it("are asked for only where a job has some", async () => {
    await renderPage(() => (
      <>
        <InputWorkersPanel job={aJob({ id: 7 })} />
        <p>below</p>
      </>
    ));
    expect(await screen.findByText("below")).toBeTruthy();
    expect(screen.queryByText("Input workers")).toBeNull();
  });
});
