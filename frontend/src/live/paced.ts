/** The live state for a page that takes long to draw, such as the map of a hundred thousand GPUs. */

import { useEffect, useRef, useState } from "react";

import { live } from "@/live/live";
import type { LiveState } from "@/live/store";

/** After a page was drawn, the browser is free for this many times as long. */
const REST = 4;
/** Frames that the browser begins before it has drawn a canvas, and how long they take where nothing is drawn. */
const FRAMES = 4;
const FRAMES_MS = 68;

class Pace {
  private isBusy = false;
  private hasNews = false;
  private began = 0;
  private timer: ReturnType<typeof setTimeout> | undefined;

  constructor(
    private shown: LiveState,
    private readonly show: (state: LiveState) => void,
  ) {}

  readonly hear = (): void => {
    const newest = live.current();
    if (newest === this.shown) return;
    this.hasNews = this.isBusy;
    if (this.isBusy) return;
    this.isBusy = true;
    this.began = performance.now();
    this.shown = newest;
    this.show(newest);
  };

  /** The page has drawn what was shown, as far as it knows: the browser fills a canvas with the next frame. */
  drawn(): void {
    if (this.isBusy) afterFrames(FRAMES, () => this.rest());
  }

  end(): void {
    clearTimeout(this.timer);
  }

  private rest(): void {
    const tookMs = Math.max(0, performance.now() - this.began - FRAMES_MS);
    this.timer = setTimeout(() => {
      this.isBusy = false;
      if (this.hasNews) this.hear();
    }, REST * tookMs);
  }
}

function afterFrames(count: number, act: () => void): void {
  requestAnimationFrame(() => (count > 1 ? afterFrames(count - 1, act) : act()));
}

/** The live state, renewed so seldom that drawing what depends on it takes a fifth of the time at most. */
export function usePacedLiveState(): LiveState {
  const [shown, setShown] = useState(live.current);
  const pace = useRef<Pace | null>(null);
  useEffect(() => {
    const made = new Pace(shown, setShown);
    pace.current = made;
    const forget = live.subscribe(made.hear);
    // What came since the page was drawn for the first time.
    made.hear();
    return () => {
      forget();
      made.end();
    };
    // eslint-disable-next-line react-hooks/exhaustive-deps -- `shown` is what the first drawing shows
  }, []);
  // The effects of the parts of the page, which paint, ran before this one.
  useEffect(() => pace.current?.drawn(), [shown]);
  return shown;
}
