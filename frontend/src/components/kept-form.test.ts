import { expect, test } from "vitest";

import { unsaved, withChange } from "@/components/kept-form";

const whole = { policy: "fifo", most: 4 as number | null, seconds: 30 };

test("what is set back to what it was is no change", () => {
  const changes = withChange(whole, withChange(whole, {}, { policy: "las" }), { most: null });
  expect(changes).toEqual({ policy: "las", most: null });
  expect(withChange(whole, changes, { policy: "fifo" })).toEqual({ most: null });
});

test("objects are compared by what is in them", () => {
  const parameters: Record<string, unknown> = { backfill: false, depth: 2 };
  const settings = { policy: { name: "fifo", parameters } };
  const changes = withChange(settings, {}, { policy: { name: "fifo", parameters: {} } });
  expect(changes).toEqual({ policy: { name: "fifo", parameters: {} } });
  expect(
    withChange(settings, changes, { policy: { name: "fifo", parameters: { depth: 2, backfill: false } } }),
  ).toEqual({});
  expect(unsaved(changes, { policy: { parameters: {}, name: "fifo" } })).toEqual({});
});

test("a number that was emptied is a change", () => {
  expect(withChange<{ seconds: number | undefined | null }>({ seconds: 30 }, {}, { seconds: undefined })).toEqual({
    seconds: undefined,
  });
  expect(withChange<{ seconds: number | undefined | null }>({ seconds: null }, {}, { seconds: undefined })).toEqual({
    seconds: undefined,
  });
});

test("what was changed while the rest was saved is still to be saved", () => {
  expect(unsaved({ policy: "srtf", most: null }, { policy: "las", most: null })).toEqual({ policy: "srtf" });
});
