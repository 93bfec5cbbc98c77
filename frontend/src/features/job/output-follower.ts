/** An attempt's output, live: read to its end, again when the stream tells of more, and now and then anyway. */

import { useEffect, useState, useSyncExternalStore } from "react";

import type { LogBuffer } from "@/features/job/log-buffer";
import { live } from "@/live/live";
import type { LogMessage } from "@/live/messages";

/** The stream may lose the news. */
const ASK_ANYWAY_MS = 20_000;

export interface LogView {
  log: LogBuffer;
  loading: boolean;
  error: Error | null;
}

export interface AttemptKey {
  id: number;
  number: number;
}

export abstract class OutputFollower {
  private view: LogView;
  private readonly listeners = new Set<() => void>();
  private abort = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  /** When the timer runs out. */
  private dueAt = Infinity;
  private isReading = false;
  /** How often somebody wanted it read. */
  private wishes = 0;

  /** `isFollowed`: goes on where the output does; else what is read once is all. */
  constructor(
    protected readonly job: number,
    protected readonly attempt: AttemptKey,
    log: LogBuffer,
    private readonly isFollowed = true,
  ) {
    this.view = { log, loading: true, error: null };
  }

  /** Fetch what comes next and show it; whether there may be more at once. */
  protected abstract readPage(signal: AbortSignal): Promise<boolean>;

  /** Something new of this attempt was told. */
  protected abstract hear(news: LogMessage): void;

  readonly current = (): LogView => this.view;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  start(): () => void {
    this.abort = new AbortController();
    this.isReading = false;
    const ends = this.isFollowed ? this.follow() : [];
    void this.read();
    return () => {
      ends.forEach((end) => end());
      this.forgetTimer();
      this.abort.abort();
    };
  }

  private follow(): (() => void)[] {
    return [
      live.watchLog(this.job),
      live.subscribeAside((message) => {
        if (message.type === "log" && message.attempt === this.attempt.id) this.hear(message);
      }),
      live.subscribeStatus(() => {
        if (live.status() === "live") void this.read();
      }),
    ];
  }

  protected get log(): LogBuffer {
    return this.view.log;
  }

  protected show(changed: Partial<LogView>): void {
    this.view = { ...this.view, ...changed };
    for (const listener of this.listeners) listener();
  }

  /** Read after so long at most: what is due sooner stays. */
  protected readWithin(delayMs: number): void {
    const dueAt = Date.now() + delayMs;
    if (dueAt >= this.dueAt) return;
    this.forgetTimer();
    this.dueAt = dueAt;
    this.timer = setTimeout(() => void this.read(), delayMs);
  }

  private forgetTimer(): void {
    clearTimeout(this.timer);
    this.dueAt = Infinity;
  }

  private async read(): Promise<void> {
    this.forgetTimer();
    this.wishes += 1;
    if (this.isReading) return;
    this.isReading = true;
    const wishes = this.wishes;
    const { signal } = this.abort;
    let error: Error | null = null;
    try {
      while (await this.readPage(signal));
    } catch (reason) {
      error = reason instanceof Error ? reason : new Error(String(reason));
    }
    if (signal.aborted) return;
    this.isReading = false;
    this.show({ loading: false, error });
    const isOver = !this.isFollowed || this.log.complete;
    if (!isOver) this.readWithin(this.wishes > wishes ? 0 : ASK_ANYWAY_MS);
  }
}

/** For a component whose key is made of all that the follower is made of: another output is another component. */
export function useFollowed(make: () => OutputFollower): LogView {
  const [follower] = useState(make);
  useEffect(() => follower.start(), [follower]);
  return useSyncExternalStore(follower.subscribe, follower.current);
}
