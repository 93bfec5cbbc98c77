import { expect, it } from "vitest";

import { runTimeText } from "@/features/job/run-time-text";

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
