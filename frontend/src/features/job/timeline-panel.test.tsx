import { describe, expect, it } from "vitest";

import { stretchesOf, TimelinePanel } from "@/features/job/timeline-panel";
import { renderPage } from "@/testing/render";
import { aJob, anAttempt } from "@/testing/samples";

const at = (seconds: number) => new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString();
const job = { submitted_at: at(0), ended_at: null };

function played(...input: Parameters<typeof stretchesOf>) {
  return stretchesOf(...input).map(({ kind, from, to, attempt }) => [
    kind,
    (from - Date.UTC(2026, 0, 1)) / 1000,
    (to - Date.UTC(2026, 0, 1)) / 1000,
    attempt?.number ?? null,
  ]);
}

describe("a job's timeline", () => {
  it("waits from submission to now when nothing was tried", () => {
    expect(played(job, [], Date.parse(at(30)))).toEqual([["waiting", 0, 30, null]]);
  });

  it("shows the wait before, between and after attempts", () => {
    const preempted = anAttempt({
      number: 1,
      state: "ended",
      planned_at: at(10),
      starting_at: at(10),
      running_at: at(12),
      stopping_at: at(20),
      ended_at: at(25),
    });
    const running = anAttempt({ number: 2, planned_at: at(38), starting_at: at(40), running_at: at(41) });
    expect(played(job, [running, preempted], Date.parse(at(60)))).toEqual([
      ["waiting", 0, 10, null],
      ["starting", 10, 12, 1],
      ["running", 12, 20, 1],
      ["stopping", 20, 25, 1],
      ["waiting", 25, 38, null],
      ["planned", 38, 40, 2],
      ["starting", 40, 41, 2],
      ["running", 41, 60, 2],
    ]);
  });

  it("hides nothing of an attempt behind the next one, planned before the GPUs are left", () => {
    const moved = anAttempt({ number: 1, planned_at: at(0), running_at: at(2), stopping_at: at(20), ended_at: at(25) });
    const next = anAttempt({ number: 2, planned_at: at(19), starting_at: at(26), running_at: null });
    expect(played(job, [moved, next], Date.parse(at(30)))).toEqual([
      ["planned", 0, 2, 1],
      ["running", 2, 20, 1],
      ["stopping", 20, 25, 1],
      ["planned", 25, 26, 2],
      ["starting", 26, 30, 2],
    ]);
  });

  it("has a legend of what is drawn", async () => {
    const planned = anAttempt({ number: 1, state: "planned", planned_at: at(5), starting_at: null, running_at: null });
    const waits = aJob({ submitted_at: at(0), state: "queued" });
    await renderPage(() => <TimelinePanel job={waits} attempts={[planned]} />);
    const legend = [...document.querySelectorAll("ul[aria-hidden] li")].map((entry) => entry.textContent.trim());
    expect(legend).toEqual(["Waiting", "Planned"]);
  });

  it("ends where the job ended", () => {
    const done = anAttempt({ number: 1, state: "ended", planned_at: at(5), running_at: at(5), ended_at: at(9) });
    expect(played({ ...job, ended_at: at(9) }, [done], Date.parse(at(500)))).toEqual([
      ["waiting", 0, 5, null],
      ["running", 5, 9, 1],
    ]);
  });
});
