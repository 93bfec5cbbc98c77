/** A rank's output: continued by the chunks that the stream brings, and fetched where it left a gap. */

import { fetchLog } from "@/api/queries";
import { addPage, addStreamed, emptyLog, hasGap, logFrom } from "@/features/job/log-buffer";
import { OutputFollower, useFollowed, type AttemptKey, type LogView } from "@/features/job/output-follower";
import type { LogMessage } from "@/live/messages";

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
