import { describe, expect, it } from "vitest";

import type { AttemptState, Job } from "@/api/schema";
import { describePlot, plantGarden, tallyOf, unseenPart } from "@/components/gpu-map/garden";
import { aGpu, aJob, anAttempt, aNode } from "@/testing/samples";

function holding(gpus: number[], state: AttemptState, given: Partial<Job> = {}): Job {
  const gpuList = gpus.map((id) => ({ id, index: id }));
  const attempt = anAttempt({
    state,
    placement: [{ node: "node-1", node_id: 1, gpus: gpuList, ranks: [0], state: "held", enforcement: "" }],
  });
  return aJob({ state: "running", attempt, ...given });
}

function statesOf(gpus: Parameters<typeof aGpu>[0][], jobs: Job[], node: Parameters<typeof aNode>[0] = {}) {
  const [rack] = plantGarden([aNode({ gpus: gpus.map(aGpu), ...node })], jobs);
  return rack?.beds[0]?.plots ?? [];
}

const WINDOW = { id: 1, reason: "New drivers", starts_at: "2026-01-01T00:00:00Z", ends_at: "2026-01-01T01:00:00Z" };
const LOAN = { pool: "web", by: "", why: "", since: null, until: null, return_by: null };

describe("the garden", () => {
  it("shows the holder of a GPU and the job that takes it next", () => {
    const [plot] = statesOf(
      [{ id: 7, state: "held" }],
      [holding([7], "stopping", { id: 1 }), holding([7], "planned", { id: 2, state: "queued" })],
    );
    expect(plot).toMatchObject({ state: "stopping", job: { id: 1 }, successor: { id: 2 } });
  });

  it("says that a held GPU is another tenant's when the viewer sees no job on it", () => {
    expect(statesOf([{ id: 7, state: "held" }], [])[0]?.state).toBe("unknown");
  });

  it("puts a node's absence before its GPUs, and health before use", () => {
    expect(statesOf([{ id: 7, state: "held" }], [holding([7], "running")], { state: "lost" })[0]?.state).toBe(
      "offline",
    );
    expect(statesOf([{ id: 7, healthy: false }], [])[0]?.state).toBe("unhealthy");
  });

  it.each([
    ["a cordoned node", { cordoned: true }],
    ["a node in maintenance", { maintenance: { ...WINDOW, state: "open" as const } }],
    ["a node that a window drains", { maintenance: { ...WINDOW, state: "draining" as const } }],
    ["a node that its serving pool has", { loan: { ...LOAN, state: "serving" as const } }],
  ])("does not count idle GPUs of %s as free", (_, closing) => {
    const gpus = [aGpu({ id: 7 }), aGpu({ id: 8, state: "planned" }), aGpu({ id: 9, state: "held" })];
    const tally = tallyOf(plantGarden([aNode({ gpus, ...closing })], []));
    expect(Object.fromEntries(tally.byState)).toEqual({ closed: 2, unknown: 1 });
    expect(tally).toMatchObject({ nodes: 1, ready: 1, closed: 1 });
  });

  it("counts GPUs as free while a window is only announced, or a serving pool lends the node", () => {
    const announced = { maintenance: { ...WINDOW, state: "announced" as const } };
    const lent = { loan: { ...LOAN, state: "lent" as const } };
    for (const open of [announced, lent]) expect(statesOf([{ id: 7 }], [], open)[0]?.state).toBe("free");
  });

  it("does not plant ended attempts or parts that have exited", () => {
    const released = holding([7], "running");
    released.attempt?.placement.forEach((part) => (part.state = "exited"));
    expect(statesOf([{ id: 7 }], [holding([7], "ended"), released])[0]).toMatchObject({ job: null, state: "free" });
  });

  it("shows who shares a GPU with which part, in a settled order, and what others have", () => {
    const having = (part: number, id: number, name: string) => {
      const job = holding([7], "running", { id, name });
      job.attempt?.placement.forEach(({ gpus }) => gpus.forEach((gpu) => (gpu.part = part)));
      return job;
    };
    const [rack] = plantGarden(
      [aNode({ gpus: [aGpu({ id: 7, state: "held", in_use: 0.9 })] })],
      [having(0.3, 2, "bert"), having(0.4, 1, "digits")],
    );
    const bed = rack?.beds[0];
    const plot = bed?.plots[0];
    if (!bed || !plot) throw new Error("nothing planted");
    expect(plot.sharers.map(({ job, part }) => [job.id, part])).toEqual([
      [1, 0.4],
      [2, 0.3],
    ]);
    expect(unseenPart(plot)).toBeCloseTo(0.2);
    expect(describePlot(bed, plot)).toBe(
      "node-1 GPU 0, V100: shared by 0.4 digits #1 of vision, 0.3 bert #2 of vision, 0.2 other tenants",
    );
  });

  it("draws those who have all of a GPU together evenly, and one alone as ever", () => {
    const together = [holding([7], "running", { id: 1 }), holding([7], "running", { id: 2 })];
    const [shared, whole] = statesOf(
      [
        { id: 7, state: "held" },
        { id: 8, state: "held" },
      ],
      [...together, holding([8], "running", { id: 3 })],
    );
    expect(shared?.sharers.map(({ part }) => part)).toEqual([0.5, 0.5]);
    expect(whole).toMatchObject({ job: { id: 3 }, sharers: [] });
  });

  it("orders racks and nodes as people count", () => {
    const nodes = ["n10", "n2", "n1"].map((name, id) => aNode({ id, name, rack: "r" }));
    expect(plantGarden(nodes, [])[0]?.beds.map((bed) => bed.node.name)).toEqual(["n1", "n2", "n10"]);
  });

  it("describes a plot in one sentence", () => {
    const [rack] = plantGarden([aNode({ gpus: [aGpu({ id: 7, state: "held" })] })], [holding([7], "running")]);
    const bed = rack?.beds[0];
    const plot = bed?.plots[0];
    if (!bed || !plot) throw new Error("nothing planted");
    expect(describePlot(bed, plot)).toBe("node-1 GPU 0, V100: Running, job 1 digits of vision");
  });
});
