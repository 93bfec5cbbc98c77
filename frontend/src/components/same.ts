import { hashKey } from "@tanstack/react-query";

/** Objects are the same when their fields are, in whatever order. */
export function isSame(one: unknown, other: unknown): boolean {
  // Nothing is not the same as null.
  return hashKey([{ value: one }]) === hashKey([{ value: other }]);
}
