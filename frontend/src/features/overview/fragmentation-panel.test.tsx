import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import type { Fragmentation } from "@/api/schema";
import { FragmentationPanel } from "@/features/overview/fragmentation-panel";
import { renderPage } from "@/testing/render";
import { server } from "@/testing/server";

const AT = "2026-01-08T00:00:00Z";
const FOUND: Fragmentation = {
  points: [{ at: AT, idle: 6, fragmented: 2.5 }],
  newest: {
    at: AT,
    idle: 6,
    fragmented: 2.5,
    causes: { cpus: 0.5, gpus: 2 },
    kinds: [
      { gpus: 2, cpus: 0, gpu_models: [], frequency: 0.5, usable: 6 },
      { gpus: 4, cpus: 8, gpu_models: ["A100", "H100"], frequency: 0.3, usable: 4 },
      { gpus: 8, cpus: 0, gpu_models: [], frequency: 0.2, usable: 0 },
    ],
    nodes: [{ name: "node-a", idle: 2, fragmented: 1.5 }],
  },
};

const answer = (found: Fragmentation) => server.on("GET /cluster/fragmentation", found);

describe("Fragmentation", () => {
  it("says how much of what is idle is of no use, and what is missing, the most first", async () => {
    answer(FOUND);
    await renderPage(FragmentationPanel);
    await screen.findByText(/can use 3\.5 of 6 idle GPUs: 42 % of them are fragmented/);
    const rows = (name: string) =>
      within(screen.getByRole("table", { name }))
        .getAllByRole("row")
        .slice(1)
        .map(({ textContent }) => textContent);
    expect(rows("What replicas lack")).toEqual(["Too few GPUs together, or too little of one2.0", "Too few CPUs0.5"]);
    // Those that can use everything are left out; what adds most comes first.
    expect(rows("Replicas that cannot use all idle GPUs")).toEqual([
      "8 GPUs20.0 %0.0 of 6.0",
      "4 GPUs and 8 CPUs on A100 or H10030.0 %4.0 of 6.0",
    ]);
    screen.getByRole("link", { name: "node-a" });
  });

  it("says that nothing was measured yet", async () => {
    answer({ points: [], newest: null });
    await renderPage(FragmentationPanel);
    await screen.findByText("Not measured yet");
  });

  it("says that nothing is idle", async () => {
    answer({
      ...FOUND,
      newest: { at: AT, idle: 0, fragmented: 0, causes: {}, kinds: [], nodes: [] },
    });
    await renderPage(FragmentationPanel);
    await screen.findByText("No GPU is idle.");
    expect(screen.queryByRole("table")).toBeNull();
  });
});
