import { screen, within } from "@testing-library/react";
import { beforeEach, describe, expect, it, vi } from "vitest";

import { ComparePage } from "@/features/compare/compare-page";
import { renderPage, rowsOf } from "@/testing/render";
import { aJob } from "@/testing/samples";
import { Refusal, server } from "@/testing/server";

// Curves are drawn on a canvas, which tests have not.
vi.mock("@/components/chart", () => ({
  Chart: ({ label, x, series }: { label: string; x: number[]; series: { label: string }[] }) => (
    <p>
      {label}: {x.join(" ")} of {series.map((each) => each.label).join(" and ")}
    </p>
  ),
  ChartKey: ({ series }: { series: { label: string }[] }) => <p>Key: {series.map((each) => each.label).join(", ")}</p>,
}));

const { spec } = aJob({});
const started_at = "2026-01-01T00:00:00Z";
const jobs = [
  aJob({ id: 1, name: "low", state: "succeeded", started_at, spec: { ...spec, name: "low", priority: 1 } }),
  aJob({ id: 2, name: "high", state: "succeeded", started_at, spec: { ...spec, name: "high", priority: 2 } }),
];
const points = (losses: number[]) => ({
  points: losses.map((loss, step) => ({
    attempt: 1,
    at: new Date(Date.parse(started_at) + step * 1000).toISOString(),
    step,
    samples: null,
    values: { loss },
  })),
});

beforeEach(() => {
  for (const job of jobs) server.on(`GET /jobs/${job.id}`, job);
  server.on("GET /jobs/1/progress", points([1, 0.5, 0.7]));
  server.on("GET /jobs/2/progress", points([2, 1]));
});

const at = (address: string) => ({ route: "/compare", at: `/compare?jobs=${address}` });

describe("the comparison of jobs", () => {
  it("lays their curves over one another, and shows what they end in and what differs", async () => {
    const { user } = await renderPage(ComparePage, at("1,2"));
    expect(await screen.findByText("loss by step: 0 1 2 of low #1 and high #2")).toBeTruthy();
    expect(screen.getByText("Key: low #1, high #2")).toBeTruthy();
    expect(rowsOf(screen.getByRole("table", { name: "Last and best values" }))).toEqual([
      ["Loss (best: lowest)", "0.7 (best 0.5)", "1 (best 1)"],
    ]);
    expect(rowsOf(screen.getByRole("table", { name: "Differences between the specifications" }))).toEqual([
      ["name", "low", "high"],
      ["priority", "1", "2"],
    ]);
    await user.click(screen.getByRole("radio", { name: "Time since start" }));
    expect(await screen.findByText(/^loss by time:/)).toBeTruthy();
    expect(server.asked).toHaveLength(4);
  });

  it("shows the rest where one of them may not be seen", async () => {
    server.on("GET /jobs/9", new Refusal(404, { code: "not_found", detail: "There is no job 9." }));
    await renderPage(ComparePage, at("1,9,2"));
    expect(await screen.findByText(/Job 9 is not shown: there is no such job, or you may not see it/)).toBeTruthy();
    const table = screen.getByRole("table", { name: "Jobs" });
    expect(within(table).getAllByRole("row")).toHaveLength(3);
    expect(await screen.findByText(/of low #1 and high #2/)).toBeTruthy();
  });

  it("says where jobs are chosen when the address names too few", async () => {
    await renderPage(ComparePage, at("1,1"));
    expect(await screen.findByText("Choose 2 to 8 jobs")).toBeTruthy();
    expect(server.asked).toEqual([]);
  });
});
