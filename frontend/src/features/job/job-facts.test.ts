import { describe, expect, it } from "vitest";

import { runTimeText, turnAt } from "@/features/job/job-facts";

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

const known = {
  declared_seconds: 7_200,
  measured_seconds: 15_000,
  gpu_model: "",
  differs: true,
  outlasts_limit: false,
};

it("tells what was declared beside what is measured where they differ", () => {
  expect(runTimeText(known)).toBe("declared 2 h, by its steps 4 h 10 min");
  expect(runTimeText({ ...known, gpu_model: "V100", differs: false, outlasts_limit: true })).toBe(
    "by its steps 4 h 10 min on V100; longer than its time limit",
  );
  expect(runTimeText({ ...known, measured_seconds: null })).toBe("declared 2 h; too few steps yet to measure");
});
