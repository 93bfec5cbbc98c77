/** A rank's output, live: fetched, continued by the stream, and fetched again where the stream left a gap. */

import { useEffect, useState, useSyncExternalStore } from "react";

import { fetchLog } from "@/api/queries";
import { addPage, addStreamed, emptyLog, hasGap, logFrom, type LogBuffer } from "@/features/job/log-buffer";
import { live } from "@/live/live";

/** A gap is usually a chunk that is only late: REST is asked after this long. */
const GAP_PATIENCE_MS = 400;
/** The stream may lose the last chunks, with nothing after them to show the gap. */
const ASK_ANYWAY_MS = 20_000;
const CHUNKS_PER_PAGE = 500;

export interface LogView {
  log: LogBuffer;
  loading: boolean;
  error: Error | null;
}

/** A place in the middle: chunk `sequence`, whose text begins in line `line`. */
export interface LogStart {
  sequence: number;
  line: number;
}

class LogFollower {
  private view: LogView;
  private readonly listeners = new Set<() => void>();
  private abort = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isReading = false;

  constructor(
    private readonly job: number,
    private readonly attempt: { id: number; number: number },
    private readonly rank: number,
    private readonly from: LogStart | undefined,
  ) {
    this.view = { log: from ? logFrom(from.sequence, from.line) : emptyLog, loading: true, error: null };
  }

  readonly current = (): LogView => this.view;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  start(): () => void {
    this.abort = new AbortController();
    this.isReading = false;
    if (this.from) {
      void this.read();
      return () => this.abort.abort();
    }
    const ends = [
      live.watchLog(this.job),
      live.subscribeAside((message) => {
        if (message.type !== "log" || message.attempt !== this.attempt.id || message.rank !== this.rank) return;
        this.show({ log: addStreamed(this.view.log, message.chunks) });
        if (hasGap(this.view.log)) this.readLater(GAP_PATIENCE_MS);
      }),
      live.subscribeStatus(() => {
        if (live.status() === "live") void this.read();
      }),
      () => clearTimeout(this.timer),
      () => this.abort.abort(),
    ];
    void this.read();
    return () => ends.forEach((end) => end());
  }

  private readLater(delay: number): void {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => void this.read(), delay);
  }

  /** Fetch from the last chunk that is known up to the newest; from the middle on only what fits into one page. */
  private async read(): Promise<void> {
    if (this.isReading) return;
    this.isReading = true;
    const { signal } = this.abort;
    try {
      for (;;) {
        const where = {
          attempt: this.attempt.number,
          rank: this.rank,
          after: this.view.log.through,
          limit: CHUNKS_PER_PAGE,
        };
        const page = await fetchLog(this.job, where, signal);
        this.show({ log: addPage(this.view.log, page), error: null });
        if (this.from || page.complete || page.chunks.length === 0) break;
      }
    } catch (reason) {
      if (!signal.aborted) this.show({ error: reason instanceof Error ? reason : new Error(String(reason)) });
    }
    if (signal.aborted) return;
    this.isReading = false;
    this.show({ loading: false });
    if (!this.from && !this.view.log.complete) this.readLater(ASK_ANYWAY_MS);
  }

  private show(changed: Partial<LogView>): void {
    this.view = { ...this.view, ...changed };
    for (const listener of this.listeners) listener();
  }
}

/** For a component whose key is made of all of these: another log is another component. */
export function useLog(job: number, attempt: { id: number; number: number }, rank: number, from?: LogStart): LogView {
  const [follower] = useState(() => new LogFollower(job, attempt, rank, from));
  useEffect(() => follower.start(), [follower]);
  return useSyncExternalStore(follower.subscribe, follower.current);
}
