import { describe, expect, it } from "vitest";

import { turnAt } from "@/features/job/turns";

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
