import { describe, expect, it } from "vitest";

import { reconnectDelay } from "@/live/connection";

describe("the delay before connecting again", () => {
  it("doubles, and never passes fifteen seconds", () => {
    const longest = [0, 1, 2, 3, 10].map((failures) => reconnectDelay(failures, 1));
    expect(longest).toEqual([500, 1000, 2000, 4000, 15_000]);
  });

  it("is spread over half its length", () => {
    expect(reconnectDelay(1, 0)).toBe(500);
    expect(reconnectDelay(1, 1)).toBe(1000);
  });
});
