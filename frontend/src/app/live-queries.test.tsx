import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { waitFor } from "@testing-library/react";
import { expect, it, onTestFinished, vi } from "vitest";

import { startLive } from "@/app/live-queries";
import { openStream } from "@/testing/stream";

it("asks again for what was under way when the stream opened: its answer is perhaps older", async () => {
  const queries = new QueryClient();
  const read = vi.fn(({ signal }: { signal: AbortSignal }) => {
    if (read.mock.calls.length > 1) return Promise.resolve("new");
    // Read before a round whose reasons were told before the stream was there.
    return new Promise<string>((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))));
  });
  const observer = new QueryObserver(queries, { queryKey: ["job", 7], queryFn: read });
  onTestFinished(observer.subscribe(() => undefined));
  expect(read).toHaveBeenCalledTimes(1);

  openStream(() => startLive(queries));
  await waitFor(() => expect(observer.getCurrentResult().data).toBe("new"));
  expect(read).toHaveBeenCalledTimes(2);
});
