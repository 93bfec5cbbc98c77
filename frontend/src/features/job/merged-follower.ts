/** The output of several ranks: fetched again soon after the stream tells of something new. */

import { fetchMergedLog } from "@/api/queries";
import { addMerged, emptyMerged } from "@/features/job/merged-log";
import { OutputFollower, useFollowed, type AttemptKey, type LogView } from "@/features/job/output-follower";

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
