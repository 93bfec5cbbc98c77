import { screen, within } from "@testing-library/react";
import { beforeEach, describe, expect, it, vi } from "vitest";

import type { JobScaling } from "@/api/schema";
import { gpuSteps, ScalingPanel } from "@/features/job/scaling-panel";
import { renderPage } from "@/testing/render";
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
    <div
      role="img"
      aria-label={label}
    >{`${x.join(" ")} | ${series[0]?.values.join(" ")} | ${(marks ?? []).join(" ")}`}</div>
  ),
  ChartKey: () => null,
}));

const point = (gpus: number, speedup: number) => ({
  gpus,
  speedup,
  nodes: 1,
  goodput: 100 * speedup,
  efficiency: 1,
  batch_size: 64,
  local_batch: 64,
  accumulation: 0,
});

const SCALING: JobScaling = {
  is_elastic: true,
  mode: "adaptive",
  min_gpus: 1,
  gpus: 2,
  max_gpus: 4,
  allocations: [
    {
      attempt: 1,
      gpus: 2,
      gpu_model: "V100",
      nodes: 1,
      since: "2026-01-01T00:00:00Z",
      until: "2026-01-01T00:01:00Z",
      why: "",
    },
    {
      attempt: 2,
      gpus: 4,
      gpu_model: "V100",
      nodes: 1,
      since: "2026-01-01T00:02:00Z",
      until: null,
      why: "Resized from 2 to 4 GPUs: there were idle GPUs for it.",
    },
  ],
  has_earlier: false,
  now: {
    attempt: 2,
    gpus: 4,
    nodes: 1,
    batch_size: 256,
    local_batch: 32,
    accumulation: 1,
    lr_factor: 1.5,
    overhead: 0.0042,
    noise_scale: 256,
    efficiency: 0.83,
    throughput: 400,
    is_measured: true,
    goodput: 332,
    speedup: 3.2,
  },
  gpu_model: "V100",
  curve: [point(1, 1), point(2, 1.9), point(4, 3.2)],
  rests_on: { ways: 3, iterations: 300, most_replicas: 4, fitted_at: "2026-01-01T00:02:30Z", gpu_models: [] },
};

beforeEach(() => server.on("GET /jobs/7/scaling", SCALING));

const Page = () => <ScalingPanel job={aJob({ id: 7, state: "running" })} />;

describe("the scaling of a job", () => {
  it("shows its batch, the predicted speedup with today's number, and why it was resized", async () => {
    await renderPage(Page);
    expect(await screen.findByText("1 to 4 GPUs, adaptive")).toBeTruthy();
    expect(screen.getByText("256 (32 a gradient, 2 gradients each)")).toBeTruthy();
    expect(screen.getByText("× 1.50")).toBeTruthy();
    expect(screen.getByText("83 %")).toBeTruthy();
    expect(screen.getByText("0.4 %")).toBeTruthy();
    expect(screen.getByText("332 samples/s")).toBeTruthy();
    expect(screen.getByRole("img", { name: "Speedup by GPUs" }).textContent).toBe("1 2 4 | 1 1.9 3.2 | 4");
    expect(screen.getByText(/^By 3 ways of running, timed over 300 iterations with up to 4 replicas/)).toBeTruthy();
    const why = screen.getByRole("list", { name: "Why it was resized" });
    expect(
      within(why)
        .getAllByRole("listitem")
        .map((item) => item.textContent),
    ).toEqual(["Attempt 2: Resized from 2 to 4 GPUs: there were idle GPUs for it."]);
  });

  it("says what is not known yet", async () => {
    server.on("GET /jobs/7/scaling", { ...SCALING, now: null, curve: [], gpu_model: null, rests_on: null });
    await renderPage(Page);
    expect(await screen.findByText(/Scaling is not known yet/)).toBeTruthy();
  });

  it("is not there for a job of one size that tells nothing", async () => {
    server.on("GET /jobs/7/scaling", { ...SCALING, is_elastic: false, now: null });
    await renderPage(Page);
    await vi.waitFor(() => expect(server.sent("GET /jobs/7/scaling").length).toBeGreaterThan(0));
    expect(screen.queryByText("Scaling")).toBeNull();
  });
});

describe("GPUs over time", () => {
  it("are levels, with none between two attempts", () => {
    const began = Date.parse("2026-01-01T00:00:00Z") / 1000;
    const { x, values } = gpuSteps(SCALING.allocations, began + 300);
    expect(values).toEqual([2, 2, 0, 0, 4, 4]);
    expect(x.map((at) => Math.round(at - began))).toEqual([0, 60, 60, 120, 120, 300]);
  });
});
