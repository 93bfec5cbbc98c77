/** Whose turn it is among attempts that run one at a time on the same GPUs. Pure. */

import type { Attempt } from "@/api/schema";

export type Turn = NonNullable<Attempt["turn"]>;

/** Whether it is this turn at an instant (Unix seconds), and in how many seconds it ends, or begins. */
export function turnAt({ index, count, seconds }: Turn, now: number): { isOn: boolean; leftSeconds: number } {
  const slice = Math.floor(now / seconds);
  const slicesUntil = (((index - slice) % count) + count) % count;
  const isOn = slicesUntil === 0;
  return { isOn, leftSeconds: (slice + (isOn ? 1 : slicesUntil)) * seconds - now };
}
