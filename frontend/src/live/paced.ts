/** The live state for a page that takes long to draw, such as the map of a hundred thousand GPUs. */

import { useEffect, useRef, useState } from "react";

import { live } from "@/live/live";
import type { LiveState } from "@/live/store";

/** After a page was drawn, the browser is free for this many times as long. */
const REST = 4;

/** The live state, renewed so seldom that drawing what depends on it takes a fifth of the time at most. */
export function usePacedLiveState(): LiveState {
  const [shown, setShown] = useState(live.current);
  const began = useRef<number | null>(null);
  const mayRenewAt = useRef(0);
  useEffect(() => {
    // The effects of the parts of the page, which paint, ran before this one.
    const ended = performance.now();
    if (began.current !== null) mayRenewAt.current = ended + REST * (ended - began.current);
  }, [shown]);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const renew = () => {
      timer = undefined;
      began.current = performance.now();
      setShown(live.current());
    };
    const hear = () => {
      if (timer !== undefined) return;
      const wait = mayRenewAt.current - performance.now();
      if (wait <= 0) renew();
      else timer = setTimeout(renew, wait);
    };
    const forget = live.subscribe(hear);
    // What came since the page was drawn for the first time.
    hear();
    return () => {
      forget();
      clearTimeout(timer);
    };
  }, []);
  return shown;
}
