import { screen } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import {
  auxiliaryLines,
  codeText,
  dataSetText,
  enforcementWords,
  Preemptions,
  runTimeText,
  turnAt,
} from "@/features/job/job-facts";
import { renderPage } from "@/testing/render";
import { aJob } from "@/testing/samples";
import { server } from "@/testing/server";

describe("turnAt", () => {
  const second = { index: 1, count: 3, seconds: 60 };

  it("counts down to the end of its own turn", () => {
    expect(turnAt(second, 60)).toEqual({ isOn: true, leftSeconds: 60 });
    expect(turnAt(second, 119)).toEqual({ isOn: true, leftSeconds: 1 });
  });

  it("counts down to its next turn in those of others", () => {
    expect(turnAt(second, 30)).toEqual({ isOn: false, leftSeconds: 30 });
    expect(turnAt(second, 120)).toEqual({ isOn: false, leftSeconds: 120 });
    expect(turnAt(second, 200)).toEqual({ isOn: false, leftSeconds: 40 });
  });
});

it("says plainly where nothing holds a job to its part of a GPU", () => {
  expect(enforcementWords("placement_only")).toContain("not enforced");
  expect(enforcementWords("enforced")).toBe("enforced");
});

it("says what a job reads, and how fast only where it waits for that", () => {
  const data = { name: "imagenet", size: 140 * 2 ** 30, bandwidth: 0 };
  expect(dataSetText(data)).toBe("imagenet, 140 GiB");
  expect(dataSetText({ ...data, bandwidth: 200 * 2 ** 20 })).toBe("imagenet, 140 GiB, 200 MiB/s for each replica");
});

describe("auxiliaryLines", () => {
  const replica = {
    rank: 0,
    cpus: 9,
    memory_bytes: 2 ** 30,
    proportional_cpus: 3,
    proportional_memory_bytes: 2 ** 30,
  };

  it("tells what is beyond the part of the node that the GPUs are, and ranks alike in one line", () => {
    const less = { ...replica, rank: 2, cpus: 1.5, memory_bytes: 0 };
    expect(auxiliaryLines({ replicas: [replica, { ...replica, rank: 1 }, less], message: "Crowded." })).toEqual([
      "ranks 0, 1: 9 CPUs (3 by its GPUs, 6 more), 1 GiB",
      "rank 2: 1.5 CPUs (3 by its GPUs, 1.5 less)",
      "Crowded.",
    ]);
  });

  it("knows no limit where the node does not say what it has", () => {
    expect(auxiliaryLines({ replicas: [{ ...replica, cpus: 0, memory_bytes: 0 }], message: "" })).toEqual([
      "rank 0: as much as there is",
    ]);
  });
});

describe("codeText", () => {
  const uploaded = {
    archive: `sha256:0123456789abcdef${"0".repeat(48)}`,
    git: null,
    commit: null,
    bytes: 2048,
    files: 12,
    unpacked_bytes: 4096,
    is_removed: false,
  };

  it("tells an archive by its digest, and whether its bytes are still there", () => {
    expect(codeText(uploaded)).toBe("sha256:0123456789ab, 12 files, 2 KiB");
    expect(codeText({ ...uploaded, is_removed: true })).toContain("removed");
  });

  it("tells a commit by its repository", () => {
    const git = { ...uploaded, archive: null, git: "https://git.example.org/x", commit: "f".repeat(40) };
    expect(codeText(git)).toBe("commit ffffffffffff of https://git.example.org/x");
  });
});

const known = {
  declared_seconds: 7_200,
  measured_seconds: 15_000,
  gpu_model: "",
  differs: true,
  outlasts_limit: false,
  usual_seconds: null,
  usual_by: "",
  usual_jobs: 0,
  usual_error: null,
} as const;

it("tells what was declared beside what is measured where they differ", () => {
  expect(runTimeText(known)).toBe("declared 2 h, estimated 4 h 10 min from its steps");
  expect(runTimeText({ ...known, gpu_model: "V100", differs: false, outlasts_limit: true })).toBe(
    "estimated 4 h 10 min on V100 from its steps; longer than its time limit",
  );
  expect(runTimeText({ ...known, measured_seconds: null })).toBe("declared 2 h; too few steps yet to measure");
  expect(
    runTimeText({
      ...known,
      measured_seconds: null,
      declared_seconds: null,
      usual_seconds: 6_000,
      usual_by: "size",
      usual_jobs: 12,
      usual_error: 0.08,
    }),
  ).toBe("not known; usual 1 h 40 min (12 jobs of the same application and size, off by 8 %)");
});

it("says what preemptions cost, also where the job has not started again", async () => {
  server.on("GET /jobs/7/preemptions", { times: 1, lost_seconds: 54, overhead_seconds: 4, may_borrow_at: null });
  await renderPage(() => <Preemptions job={aJob({ id: 7, state: "cancelled", preemptions: 1 })} />);
  expect(await screen.findByText("1 time; 54 s of work lost, 4 s to stop and start")).toBeTruthy();
});
