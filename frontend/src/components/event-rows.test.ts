import { describe, expect, it } from "vitest";

import { actorText, eventRows } from "@/components/event-rows";
import { anEvent } from "@/testing/samples";

const at = (second: number) => `2026-01-01T00:00:0${second}Z`;

describe("rows of events", () => {
  it("are in the order of their times", () => {
    const rows = eventRows([
      anEvent({ id: 3, at: at(5) }),
      anEvent({ id: 2, at: at(8) }),
      anEvent({ id: 1, at: at(5) }),
    ]);
    expect(rows.map(({ event }) => event.id)).toEqual([2, 3, 1]);
  });

  it("tell of a job and its attempt once", () => {
    const job = anEvent({ id: 2, at: at(5), from: "queued", to: "running" });
    const attempt = anEvent({ id: 1, at: at(5), subject: "attempt", from: "starting", to: "running" });
    const other = anEvent({ ...attempt, id: 3, job: 8 });
    const later = anEvent({ ...attempt, id: 4, at: at(6) });
    const waiting = anEvent({ id: 5, at: at(6), from: "", to: "" });
    expect(eventRows([attempt, job, other, later, waiting])).toEqual([
      { event: waiting, attempt: null },
      { event: later, attempt: null },
      { event: other, attempt: null },
      { event: job, attempt },
    ]);
  });
});

it("names the release of GPUs in words, and any other actor as the server does", () => {
  expect(actorText("release")).toBe("GPUs released");
  expect(actorText("round 97")).toBe("round 97");
});
