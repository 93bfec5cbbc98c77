/** What of a whole was changed and is not saved yet. Values are JSON. Pure. */

import { hashKey } from "@tanstack/react-query";

/** The changes after one more; what is again as it was is none. */
export function withChange<T extends object>(whole: T, changes: Partial<T>, changed: Partial<T>): Partial<T> {
  const all = { ...changes, ...changed };
  return only(all, (name) => !isSame(all[name], whole[name]));
}

/** The changes that are left once some were saved: those that were made meanwhile. */
export function unsaved<T extends object>(changes: Partial<T>, saved: Partial<T>): Partial<T> {
  return only(changes, (name) => !isSame(changes[name], saved[name]));
}

/** Objects are the same when their fields are, in whatever order. */
function isSame(one: unknown, other: unknown): boolean {
  // Nothing is not the same as null.
  return hashKey([{ value: one }]) === hashKey([{ value: other }]);
}

function only<T extends object>(changes: Partial<T>, isKept: (name: keyof T) => boolean): Partial<T> {
  const names = Object.keys(changes) as (keyof T)[];
  return Object.fromEntries(names.filter(isKept).map((name) => [name, changes[name]])) as Partial<T>;
}
