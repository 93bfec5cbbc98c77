/** What somebody entered and has not sent: it is there again when the page is, as long as the tab is open. */

import { useState } from "react";

import { useSession } from "@/components/session";

const kept = new Map<string, unknown>();

/** Like `useState`, for one person and one place; `name` says which. */
export function useKept<T>(name: string, initial: T): [T, (next: (now: T) => T) => void] {
  const key = `${useSession().user.username} ${name}`;
  const newest = () => (kept.has(key) ? (kept.get(key) as T) : initial);
  const [value, setValue] = useState(newest);
  const keep = (next: (now: T) => T) => {
    const then = next(newest());
    kept.set(key, then);
    setValue(then);
  };
  return [value, keep];
}
