import { describe, expect, it } from "vitest";

import { beside } from "@/app/tour/beside";

const card = { width: 300, height: 150 };
const wide = { width: 1440, height: 900 };
const phone = { width: 390, height: 844 };

describe("the place of a card", () => {
  it("is to the right of a box, where there is room", () => {
    expect(beside({ left: 10, top: 100, width: 200, height: 30 }, card, wide)).toEqual({ left: 222, top: 100 });
  });

  it("stays within the window beside a box at its foot", () => {
    expect(beside({ left: 10, top: 880, width: 200, height: 30 }, card, wide)).toEqual({ left: 222, top: 738 });
  });

  it("is to the left of a tall box at the right edge", () => {
    expect(beside({ left: 1000, top: 20, width: 430, height: 860 }, card, wide)).toEqual({ left: 688, top: 20 });
  });

  it("is below or above a box that is as wide as a phone", () => {
    expect(beside({ left: 5, top: 60, width: 380, height: 200 }, card, phone)).toEqual({ left: 12, top: 272 });
    expect(beside({ left: 5, top: 500, width: 380, height: 300 }, card, phone)).toEqual({ left: 12, top: 338 });
  });

  it("is at the foot of the window where the box fills it, and in the middle without one", () => {
    expect(beside({ left: 0, top: 0, width: 390, height: 2000 }, card, phone)).toEqual({ left: 45, top: 682 });
    expect(beside(null, card, phone)).toEqual({ left: 45, top: 347 });
  });
});
