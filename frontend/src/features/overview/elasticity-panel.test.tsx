import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import type { ElasticitySavings } from "@/api/schema";
import { ElasticityPanel } from "@/features/overview/elasticity-panel";
import { renderPage } from "@/testing/render";
import { server } from "@/testing/server";

const ELASTIC = { mean_completion_seconds: 3000, mean_wait_seconds: 60, gpu_hours: 81.25, resizes: 17 };

const SAVINGS: ElasticitySavings = {
  id: "8d4a4c4e-0000-4000-8000-000000000001",
  state: "done",
  problem: "",
  asked_at: "2026-01-08T00:00:00Z",
  asked_by: "olivia",
  days: 7,
  made_at: "2026-01-08T00:00:09Z",
  jobs: 40,
  elastic_jobs: 12,
  measured_jobs: 5,
  left_out: 2,
  elastic: ELASTIC,
  rigid: { mean_completion_seconds: 4000, mean_wait_seconds: 1200, gpu_hours: 80, resizes: 0 },
  assumption: "Both are simulated: the rest of the assumptions.",
};

const answer = (...results: ElasticitySavings[]) =>
  server.on("GET /elasticity-savings", { next: null, previous: null, results });

describe("What elasticity saved", () => {
  it("says both figures side by side, and that both are simulated", async () => {
    answer(SAVINGS);
    await renderPage(ElasticityPanel);
    await screen.findByText(/\(25 %\) sooner on average\. Both are simulated, from the 40 jobs/);
    screen.getByText(/12 of them elastic, 5 with measured scaling/);
    screen.getByText(/did not end: 2 jobs/);
    const table = screen.getByRole("table", { name: "Elastic and rigid, both simulated" });
    const cells = (row: string) =>
      within(within(table).getByRole("row", { name: new RegExp(`^${row}`) }))
        .getAllByRole("cell")
        .map(({ textContent }) => textContent);
    expect(cells("GPU-hours")).toEqual(["81.3", "80.0"]);
    expect(cells("Resizes")).toEqual(["17", "0"]);
    screen.getByText(SAVINGS.assumption);
  });

  it("says so where elastic jobs complete later", async () => {
    answer({ ...SAVINGS, elastic: { ...ELASTIC, mean_completion_seconds: 5000 } });
    await renderPage(ElasticityPanel);
    await screen.findByText(/\(25 %\) later on average/);
  });

  it("says that there were no elastic jobs", async () => {
    answer({ ...SAVINGS, elastic_jobs: 0, measured_jobs: 0, elastic: null, rigid: null });
    await renderPage(ElasticityPanel);
    await screen.findByText("No elastic jobs in that time");
    expect(screen.queryByRole("table")).toBeNull();
  });

  it("says why there is no answer", async () => {
    answer({ ...SAVINGS, state: "failed", problem: "It took too long to simulate; ask for fewer days." });
    await renderPage(ElasticityPanel);
    await screen.findByText("It took too long to simulate; ask for fewer days.");
  });

  it("asks for the jobs of a week and waits for the answer", async () => {
    answer();
    const waiting: ElasticitySavings = { ...SAVINGS, state: "waiting", made_at: null, elastic: null, rigid: null };
    server.on("POST /elasticity-savings", () => {
      answer(SAVINGS);
      return waiting;
    });
    const { user } = await renderPage(ElasticityPanel);
    await screen.findByText("Not simulated yet");
    await user.click(screen.getByRole("radio", { name: "7 days" }));
    await user.click(screen.getByRole("button", { name: "Simulate" }));
    await screen.findByText(/are being simulated/);
    expect(server.sent("POST /elasticity-savings")[0]?.body).toEqual({ days: 7 });
    await screen.findByRole("table");
  });
});
