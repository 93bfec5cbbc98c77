/** What a form edits: as it was shown, then as the form read it, and again once somebody else has changed it. */

import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { type Edition, isOutdated, type editionQuery } from "@/api/edition";
import { isSame } from "@/components/same";

/** How the reading of what a form edits stands. */
export interface Reading {
  /** Until it has been read nothing can be sent: the change would name no edition. */
  isReading: boolean;
  error: Error | null;
  /** Read it again: the form then starts from what is in force. */
  reload: () => Promise<unknown>;
}

interface Editing<T> extends Reading {
  /** What the form begins with, and what it compares with. */
  thing: T;
  /** For `params.header` of the change. */
  edition: Edition;
}

/** The reading of a form for something new. */
export const NEW: Reading = {
  isReading: false,
  error: null,
  reload: () => Promise.resolve(),
};

/**
 * Read what `query` says once, when the form opens; until then the form has what the page has `shown`. Null is for
 * something new, which has no edition.
 */
export function useEdition<T, Shown>(
  query: ReturnType<typeof editionQuery<T>> | null,
  shown: Shown,
): Editing<T | Shown> {
  const [first] = useState(shown);
  const { data, error, isFetching, refetch } = useQuery({
    ...(query ?? { queryKey: ["edition"], queryFn: () => Promise.reject(new Error("There is nothing to read.")) }),
    enabled: query !== null,
  });
  return {
    thing: data?.thing ?? first,
    edition: data?.edition ?? {},
    isReading: query !== null && (isFetching || data === undefined),
    error,
    reload: refetch,
  };
}

/** The reading of two things that one form edits. */
export function bothRead(one: Reading, other: Reading): Reading {
  return {
    isReading: one.isReading || other.isReading,
    error: one.error ?? other.error,
    reload: () => Promise.all([one.reload(), other.reload()]),
  };
}

/** What a form says when its change was refused, and the button for it, where one helps. */
export function useRefusal(
  { error, reset }: { error: Error | null; reset: () => void },
  reading: Omit<Reading, "isReading">,
): { notice: Error | null; onReload: (() => void) | undefined } {
  const reload = () => {
    reset();
    void reading.reload();
  };
  return {
    notice: error ?? reading.error,
    onReload: isOutdated(error) || reading.error ? reload : undefined,
  };
}

/**
 * A form's fields, kept beside those that it began with: `initial` may become another one, and then the fields that were
 * not touched follow it. Tables of numbers are compared line by line.
 */
export function useDraft<Draft extends object>(initial: Draft): [Draft, (changed: Partial<Draft>) => void] {
  const [{ base, draft }, set] = useState({ base: initial, draft: initial });
  const current = isSame(base, initial) ? draft : rebased(base, draft, initial);
  if (current !== draft) set({ base: initial, draft: current });
  return [current, (changed) => set((now) => ({ ...now, draft: { ...now.draft, ...changed } }))];
}

/** `next`, with what differs between `base` and `draft`. */
export function rebased<T extends object>(base: T, draft: T, next: T): T {
  const names = new Set([...Object.keys(base), ...Object.keys(draft), ...Object.keys(next)]) as Set<keyof T>;
  const value = (name: keyof T) => {
    const [was, typed, now] = [base[name], draft[name], next[name]];
    if (isSame(was, typed)) return now;
    return isTable(was) && isTable(typed) && isTable(now) ? rebased(was, typed, now) : typed;
  };
  return Object.fromEntries([...names].map((name) => [name, value(name)])) as T;
}

/** Such as GPUs by model. Other objects are one value: parts of two plug-ins do not make a third. */
function isTable(value: unknown): value is Record<string, number | undefined> {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
  return Object.values(value).every((each) => each === undefined || typeof each === "number");
}
