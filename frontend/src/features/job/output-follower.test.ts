import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { append, emptyLog } from "@/features/job/log-buffer";
import { OutputFollower } from "@/features/job/output-follower";
import type { LogMessage } from "@/live/messages";

let tell: (message: LogMessage) => void;
vi.mock("@/live/live", () => ({
  live: {
    watchLog: () => () => undefined,
    subscribeAside: (listener: typeof tell) => {
      tell = listener;
      return () => undefined;
    },
    subscribeStatus: () => () => undefined,
    status: () => "live",
  },
}));

const NEWS: LogMessage = { type: "log", job: 1, attempt: 5, rank: 0, chunks: [] };

class Follower extends OutputFollower {
  readonly answers: ((page: { text: string; complete: boolean }) => void)[] = [];

  protected async readPage(): Promise<boolean> {
    const { text, complete } = await new Promise<{ text: string; complete: boolean }>((answer) =>
      this.answers.push(answer),
    );
    this.show({ log: { ...append(this.log, [{ at: "", text }]), complete } });
    return text !== "" && !complete;
  }

  protected hear(): void {
    this.readWithin(500);
  }
}

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test("news that comes while it is read is read afterwards, until the output is complete", async () => {
  const follower = new Follower(1, { id: 5, number: 1 }, emptyLog);
  const stop = follower.start();
  tell({ ...NEWS, attempt: 6 });
  tell(NEWS);
  await vi.advanceTimersByTimeAsync(600);
  expect(follower.answers).toHaveLength(1);
  follower.answers[0]?.({ text: "", complete: false });
  await vi.advanceTimersByTimeAsync(0);
  expect(follower.current().loading).toBe(false);
  expect(follower.answers).toHaveLength(2);
  follower.answers[1]?.({ text: "done\n", complete: true });
  await vi.advanceTimersByTimeAsync(60_000);
  expect(follower.current().log.lines).toEqual(["done"]);
  expect(follower.answers).toHaveLength(2);
  stop();
});

test("news is gathered, what is due sooner stays, and without news it is asked again anyway", async () => {
  const follower = new Follower(1, { id: 5, number: 1 }, emptyLog);
  const stop = follower.start();
  follower.answers[0]?.({ text: "", complete: false });
  await vi.advanceTimersByTimeAsync(0);
  tell(NEWS);
  await vi.advanceTimersByTimeAsync(400);
  tell(NEWS);
  await vi.advanceTimersByTimeAsync(100);
  expect(follower.answers).toHaveLength(2);
  follower.answers[1]?.({ text: "", complete: false });
  await vi.advanceTimersByTimeAsync(20_000);
  expect(follower.answers).toHaveLength(3);
  stop();
});
