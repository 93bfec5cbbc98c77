/** The output of several ranks, live: fetched again soon after the stream tells of something new. */

import { useEffect, useState, useSyncExternalStore } from "react";

import { fetchMergedLog } from "@/api/queries";
import type { LogView } from "@/features/job/log-follower";
import { addMerged, emptyMerged } from "@/features/job/merged-log";
import { live } from "@/live/live";

/** What several ranks write at about the same time is fetched at once. */
const GATHER_MS = 500;
/** The stream may lose the news. */
const ASK_ANYWAY_MS = 20_000;

class MergedFollower {
  private merged = emptyMerged;
  private view: LogView = { log: emptyMerged.log, loading: true, error: null };
  private readonly listeners = new Set<() => void>();
  private abort = new AbortController();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private isReading = false;
  private hasNews = false;

  constructor(
    private readonly job: number,
    private readonly attempt: { id: number; number: number },
    private readonly task: string | undefined,
  ) {}

  readonly current = (): LogView => this.view;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  start(): () => void {
    this.abort = new AbortController();
    this.isReading = false;
    const ends = [
      live.watchLog(this.job),
      live.subscribeAside((message) => {
        if (message.type !== "log" || message.attempt !== this.attempt.id || this.hasNews) return;
        this.hasNews = true;
        this.readLater(GATHER_MS);
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

  private async read(): Promise<void> {
    if (this.isReading) return;
    this.isReading = true;
    this.hasNews = false;
    const { signal } = this.abort;
    try {
      for (;;) {
        const where = { attempt: this.attempt.number, task: this.task, after: this.merged.after };
        const page = await fetchMergedLog(this.job, where, signal);
        this.merged = addMerged(this.merged, page);
        this.show({ log: this.merged.log, error: null });
        if (page.chunks.length === 0) break;
      }
    } catch (reason) {
      if (!signal.aborted) this.show({ error: reason instanceof Error ? reason : new Error(String(reason)) });
    }
    if (signal.aborted) return;
    this.isReading = false;
    this.show({ loading: false });
    if (!this.merged.log.complete) this.readLater(this.newsCame() ? GATHER_MS : ASK_ANYWAY_MS);
  }

  /** While something was fetched. */
  private newsCame(): boolean {
    return this.hasNews;
  }

  private show(changed: Partial<LogView>): void {
    this.view = { ...this.view, ...changed };
    for (const listener of this.listeners) listener();
  }
}

/** For a component whose key is made of job, attempt and task. */
export function useMergedLog(job: number, attempt: { id: number; number: number }, task: string | undefined): LogView {
  const [follower] = useState(() => new MergedFollower(job, attempt, task));
  useEffect(() => follower.start(), [follower]);
  return useSyncExternalStore(follower.subscribe, follower.current);
}
