import { screen } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import type { JobDependencies } from "@/api/schema";
import { DependenciesPanel } from "@/features/job/dependencies-panel";
import { renderPage } from "@/testing/render";
import { aJob } from "@/testing/samples";
import { server } from "@/testing/server";

const ANSWER: JobDependencies = {
  waits_for: [
    { job: 3, name: "prepare", job_state: "running", when: "succeeded", state: "awaited" },
    { job: 4, name: "probe", job_state: "failed", when: "ended", state: "met" },
  ],
  awaited_by: [{ job: 9, name: "evaluate", job_state: "queued", when: "failed", state: "awaited" }],
  awaited_by_count: 120,
};

describe("The other jobs of a job", () => {
  it("are those that it waits for and those that wait for it", async () => {
    server.on("GET /jobs/7/dependencies", ANSWER);
    await renderPage(() => <DependenciesPanel job={aJob({ id: 7 })} />);
    expect((await screen.findByText(/to succeed: it is running/)).textContent).toBe(
      "job 3 prepare to succeed: it is running",
    );
    expect(screen.getByText(/to end: done/)).toBeTruthy();
    expect(screen.getByText("120 wait for it")).toBeTruthy();
    expect(
      screen
        .getByText(/for it to fail: queued/)
        .querySelector("a")
        ?.getAttribute("href"),
    ).toBe("/jobs/9");
  });
});
