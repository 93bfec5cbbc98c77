/** An attempt's output, live: read to its end, again when the stream tells of more, and now and then anyway. */

import { useEffect, useState, useSyncExternalStore } from "react";

import { fetchLog, fetchMergedLog } from "@/api/queries";
import {
  addMerged,
  addPage,
  addStreamed,
  emptyLog,
  emptyMerged,
  hasGap,
  type LogBuffer,
  logFrom,
} from "@/features/job/log-buffer";
import { live } from "@/live/live";
import type { LogMessage } from "@/live/messages";

/** The stream may lose the news. */
const ASK_ANYWAY_MS = 20_000;

export interface LogView {
  log: LogBuffer;
  loading: boolean;
  error: Error | null;
}

interface AttemptKey {
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
function useFollowed(make: () => OutputFollower): LogView {
  const [follower] = useState(make);
  useEffect(() => follower.start(), [follower]);
  return useSyncExternalStore(follower.subscribe, follower.current);
}

/** A gap is usually a chunk that is only late: REST is asked after this long. */
const GAP_PATIENCE_MS = 400;
const CHUNKS_PER_PAGE = 500;

/** A place in the middle: chunk `sequence`, whose text begins in line `line`. */
export interface LogStart {
  sequence: number;
  line: number;
}

class LogFollower extends OutputFollower {
  constructor(
    job: number,
    attempt: AttemptKey,
    private readonly rank: number,
    private readonly from: LogStart | undefined,
  ) {
    super(job, attempt, from ? logFrom(from.sequence, from.line) : emptyLog, !from);
  }

  /** From the last chunk that is known on; from the middle on only what fits into one page. */
  protected async readPage(signal: AbortSignal): Promise<boolean> {
    const { through: after } = this.log;
    const where = { attempt: this.attempt.number, rank: this.rank, after, limit: CHUNKS_PER_PAGE };
    const page = await fetchLog(this.job, where, signal);
    this.show({ log: addPage(this.log, page) });
    return !this.from && !page.complete && page.chunks.length > 0;
  }

  protected hear({ rank, chunks }: LogMessage): void {
    if (rank !== this.rank) return;
    this.show({ log: addStreamed(this.log, chunks) });
    if (hasGap(this.log)) this.readWithin(GAP_PATIENCE_MS);
  }
}

export function useLog(job: number, attempt: AttemptKey, rank: number, from?: LogStart): LogView {
  return useFollowed(() => new LogFollower(job, attempt, rank, from));
}

/** What several ranks write at about the same time is fetched at once. */
const GATHER_MS = 500;

class MergedFollower extends OutputFollower {
  private merged = emptyMerged;

  constructor(
    job: number,
    attempt: AttemptKey,
    private readonly task: string | undefined,
  ) {
    super(job, attempt, emptyMerged.log);
  }

  protected async readPage(signal: AbortSignal): Promise<boolean> {
    const where = { attempt: this.attempt.number, task: this.task, after: this.merged.after };
    const page = await fetchMergedLog(this.job, where, signal);
    this.merged = addMerged(this.merged, page);
    this.show({ log: this.merged.log });
    return page.chunks.length > 0;
  }

  protected hear(): void {
    this.readWithin(GATHER_MS);
  }
}

export function useMergedLog(job: number, attempt: AttemptKey, task: string | undefined): LogView {
  return useFollowed(() => new MergedFollower(job, attempt, task));
}
