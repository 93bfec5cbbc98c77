import { describe, expect, it } from "vitest";

import type { Job, MapJob } from "@/api/schema";
import { jobsOf, withRows } from "@/live/map-rows";
import { type Change, emptyState, type LiveState, reduce, withWhy } from "@/live/store";
import { aJob, aNode } from "@/testing/samples";

function aRow(given: Partial<MapJob>): MapJob {
  const { id, name, tenant, virtual_cluster, state, guarantee, gpus, submitted_at, position, held, version } = aJob({});
  const row = { id, name, tenant, virtual_cluster, state, guarantee, gpus, submitted_at, position, held, version };
  return { ...row, attempt: null, ...given };
}

const streamed = (...jobs: Job[]): Change => ({
  type: "objects",
  objects: jobs.map((data) => ({ kind: "job", id: data.id, version: data.version, data })),
});
const play = (...changes: Change[]): LiveState => changes.reduce(reduce, emptyState);
const answered = (rows: MapJob[], before: LiveState["job"] = new Map()): Change => ({
  type: "map",
  merge: (state) => withRows(state, "job", rows, before),
});

describe("rows of the map in the live store", () => {
  it("give way to the whole object that the stream brings, and do not come back when it is forgotten", () => {
    const state = play(answered([aRow({ id: 1 }), aRow({ id: 2 })]), streamed(aJob({ id: 1, version: 2 })));
    expect([...state.mapJob.keys()]).toEqual([2]);
    expect([...state.job.keys()]).toEqual([1]);
    expect(jobsOf(state).map(({ id }) => id)).toEqual([2, 1]);
  });

  it("are not overtaken by an older whole, and give way to one of their version that was fetched", () => {
    const row = play(answered([aRow({ id: 1, version: 5 })]));
    expect(reduce(row, streamed(aJob({ id: 1, version: 4 })))).toBe(row);
    const whole = reduce(row, { type: "fetched", kind: "job", objects: [aJob({ id: 1, version: 5 })], since: 0 });
    expect([whole.mapJob.size, whole.job.size]).toEqual([0, 1]);
  });

  it("replace only older wholes, so that each object is there once", () => {
    const before = play(streamed(aJob({ id: 1, version: 1 }), aJob({ id: 2, version: 3 })));
    const state = reduce(before, answered([aRow({ id: 1, version: 2 }), aRow({ id: 2, version: 3 })], before.job));
    expect([...state.mapJob.keys()]).toEqual([1]);
    expect([...state.job.keys()]).toEqual([2]);
  });

  it("end what ended, or was removed, while no stream told it", () => {
    const before = play(
      streamed(aJob({ id: 1 }), aJob({ id: 2 })),
      streamed(aJob({ id: 3, ended_at: "2026-01-01T00:00:00Z" })),
      answered([aRow({ id: 4 })]),
    );
    // It was submitted while the answer was under way.
    const meanwhile = reduce(before, streamed(aJob({ id: 5 })));
    const state = reduce(meanwhile, answered([aRow({ id: 2 })], before.job));
    expect([...state.job.keys()]).toEqual([2, 3, 5]);
    expect(state.mapJob.size).toBe(0);

    const node = aNode({ name: "n1" });
    const nodes = reduce(emptyState, { type: "fetched", kind: "node", objects: [node], since: 0 });
    expect(withRows(nodes, "node", [], nodes.node).node.size).toBe(0);
  });

  it("get the positions that rounds give their jobs", () => {
    const state = play(answered([aRow({ id: 1, position: 4 })]), { type: "queues", round: 8, positions: { 1: 3 } });
    expect(jobsOf(state).map((job) => withWhy(state.why, job).position)).toEqual([3]);
  });
});
