import { describe, expect, it } from "vitest";

import { emptyState, KEPT, newestPrediction, reduce, withWhy, type Change, type LiveState } from "@/live/store";
import { aJob, aReason, aRound, anUsagePoint } from "@/testing/samples";

function play(...changes: Change[]): LiveState {
  return changes.reduce(reduce, emptyState);
}

function streamed(version: number, name = `v${version}`): Change {
  return { type: "objects", objects: [{ kind: "job", id: 1, version, data: aJob({ id: 1, version, name }) }] };
}

function fetched(version: number, name = `v${version}`, since = 0): Change {
  return { type: "fetched", kind: "job", objects: [aJob({ id: 1, version, name })], since };
}

function why(round: number, message: string): Change {
  const data = { reasons: [aReason({ message })], position: round };
  return { type: "objects", objects: [{ kind: "why", id: 1, version: round, data }] };
}

describe("the live store", () => {
  it("keeps the highest version in whatever order messages come", () => {
    const orders = [
      [1, 2, 3],
      [3, 2, 1],
      [2, 3, 1],
      [3, 1, 2, 3, 1],
    ];
    for (const order of orders) {
      expect(play(...order.map((version) => streamed(version))).job.get(1)?.name).toBe("v3");
    }
  });

  it("is the very same state after a duplicate, so that nothing is drawn again", () => {
    const state = play(streamed(2));
    expect(reduce(state, streamed(2))).toBe(state);
    expect(reduce(state, streamed(1))).toBe(state);
  });

  it("does not let a late answer overwrite what the stream brought meanwhile", () => {
    expect(play(streamed(5), fetched(4)).job.get(1)?.name).toBe("v5");
  });

  it("takes an answer of the same version, whose figures are fresher", () => {
    expect(play(streamed(5, "streamed"), fetched(5, "fetched")).job.get(1)?.name).toBe("fetched");
    expect(play(fetched(5, "fetched"), streamed(5, "streamed")).job.get(1)?.name).toBe("fetched");
  });

  it("keeps what an answer does not mention", () => {
    const state = play(streamed(1), { type: "fetched", kind: "job", objects: [], since: 1 });
    expect(state.job.size).toBe(1);
  });

  it("shows the reasons of the latest round, also when rounds arrive out of order", () => {
    const state = play(streamed(1), why(8, "newer"), why(7, "older"));
    const job = withWhy(state.why, state.job.get(1) ?? aJob({}));
    expect(job.reasons[0]?.message).toBe("newer");
    expect(job.position).toBe(8);
  });

  it("prefers a fetched job's reasons to those heard before the request, not to those heard since", () => {
    const before = play(streamed(1), why(7, "heard before"));
    expect(reduce(before, fetched(1, "v1", before.clock)).why.has(1)).toBe(false);

    const overtaken = reduce(before, why(8, "heard while waiting"));
    expect(reduce(overtaken, fetched(1, "v1", before.clock)).why.get(1)?.reasons?.[0]?.message).toBe(
      "heard while waiting",
    );
  });

  it("shows no reasons for a job that no longer waits", () => {
    const state = play(why(7, "waiting"));
    const job = aJob({ id: 1, state: "running", reasons: [] });
    expect(withWhy(state.why, job)).toBe(job);
  });

  it("moves positions without touching reasons, and ignores those of an older round", () => {
    const start = play(streamed(1), why(7, "in line"));
    const moved = reduce(start, { type: "queues", round: 8, positions: { 1: 3 } });
    expect(moved.why.get(1)).toMatchObject({ position: 3, reasons: [{ message: "in line" }] });
    const late = reduce(moved, { type: "queues", round: 6, positions: { 1: 9 } });
    expect(late.why.get(1)?.position).toBe(3);
  });

  it("takes reasons from an answer that a position has overtaken", () => {
    // The page connects after the round that explained the job: it hears of later rounds only positions.
    const before = play(fetched(1));
    const overtaken = reduce(before, { type: "queues", round: 8, positions: { 1: 3 } });
    const explained = [aReason({ message: "the quota is used up" })];
    const answered = reduce(overtaken, {
      type: "fetched",
      kind: "job",
      objects: [aJob({ id: 1, version: 1, state: "queued", reasons: explained, position: 4 })],
      since: before.clock,
    });
    const job = withWhy(answered.why, answered.job.get(1) ?? aJob({}));
    expect(job).toMatchObject({ reasons: explained, position: 3 });
  });

  it("prefers reasons of an answer to those heard before it was asked for", () => {
    const old = play(streamed(1), why(7, "before the connection broke"));
    const moved = reduce(old, { type: "queues", round: 9, positions: { 1: 2 } });
    const explained = [aReason({ message: "said while it was broken" })];
    const answered = reduce(moved, {
      type: "fetched",
      kind: "job",
      objects: [aJob({ id: 1, version: 1, state: "queued", reasons: explained })],
      since: old.clock,
    });
    const job = withWhy(answered.why, answered.job.get(1) ?? aJob({}));
    expect(job).toMatchObject({ reasons: explained, position: 2 });
  });

  it("keeps the newest prediction, whether it was fetched or heard", () => {
    const foreseen = (round: number) => ({
      prediction: {
        starts_at: "2026-01-01T00:10:00Z",
        earliest: "2026-01-01T00:05:00Z",
        latest: null,
        assumption: "if jobs run long",
        position: 1,
        made_at: "2026-01-01T00:00:00Z",
        round,
      },
      no_prediction: "",
    });
    const told = (round: number): Change => ({
      type: "objects",
      objects: [{ kind: "prediction", id: 1, version: round, data: foreseen(round) }],
    });
    const state = play(told(7), told(6));
    expect(state.prediction.get(1)?.round).toBe(7);
    expect(newestPrediction(state.prediction, 1, foreseen(6))?.prediction?.round).toBe(7);
    expect(newestPrediction(state.prediction, 1, foreseen(8))?.prediction?.round).toBe(8);
    expect(newestPrediction(state.prediction, 2, foreseen(8))?.prediction?.round).toBe(8);
    expect(newestPrediction(state.prediction, 2, undefined)).toBeUndefined();
  });

  it("sorts usage by time and holds one point for each instant", () => {
    const state = play(
      { type: "usage", points: [anUsagePoint("2026-01-01T00:02:00Z", 8)] },
      { type: "usage", points: [anUsagePoint("2026-01-01T00:01:00Z", 4), anUsagePoint("2026-01-01T00:02:00Z", 9)] },
    );
    expect(state.usage.map((point) => point.held)).toEqual([4, 9]);
  });

  it("forgets the oldest rounds and ended jobs but never one that lives", () => {
    const rounds = Array.from({ length: KEPT.rounds * 2 }, (_, number) => aRound({ number }));
    const jobs = Array.from({ length: KEPT.endedJobs * 2 }, (_, id) =>
      aJob({ id, ended_at: id === 0 ? null : "2026-01-01T00:00:00Z" }),
    );
    const state = play(
      { type: "fetched", kind: "round", objects: rounds, since: 0 },
      { type: "fetched", kind: "job", objects: jobs, since: 0 },
    );
    expect(state.round.size).toBe(KEPT.rounds);
    expect(state.round.has(KEPT.rounds * 2 - 1)).toBe(true);
    expect(state.job.size).toBe(KEPT.endedJobs + 1);
    expect(state.job.has(0)).toBe(true);
  });

  it("notices that something changed at the market, however it is called", () => {
    const state = play({ type: "objects", objects: [{ kind: "loan", id: 1, version: 1 }] }, streamed(1));
    expect(state.market).toBe(1);
  });

  it("forgets everything at sign-out but goes on counting", () => {
    const state = play(streamed(1));
    const forgotten = reduce(state, { type: "forget" });
    expect(forgotten.job.size).toBe(0);
    expect(forgotten.clock).toBeGreaterThan(state.clock);
  });
});
