import { expect, test } from "vitest";

import { unsaved, withChange } from "@/components/changes";

const whole = { policy: "fifo", most: 4 as number | null, seconds: 30 };

test("what is set back to what it was is no change", () => {
  const changes = withChange(whole, withChange(whole, {}, { policy: "las" }), { most: null });
  expect(changes).toEqual({ policy: "las", most: null });
  expect(withChange(whole, changes, { policy: "fifo" })).toEqual({ most: null });
});

test("what was changed while the rest was saved is still to be saved", () => {
  expect(unsaved({ policy: "srtf", most: null }, { policy: "las", most: null })).toEqual({ policy: "srtf" });
});
