import { QueryClient, QueryObserver } from "@tanstack/react-query";
import { waitFor } from "@testing-library/react";
import { expect, it, onTestFinished, vi } from "vitest";

import { ApiError } from "@/api/client";
import { mapNodesQuery } from "@/api/map-queries";
import type { Job } from "@/api/schema";
import { startLive } from "@/app/live-queries";
import { live } from "@/live/live";
import { withRows } from "@/live/map-rows";
import { aJob, aRound } from "@/testing/samples";
import { page, server } from "@/testing/server";
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

it("does not ask again for what the role of a person forbids", async () => {
  const queries = new QueryClient({ defaultOptions: { queries: { retry: false } } });
  const forbidden = vi.fn(() => Promise.reject(new ApiError(403, "forbidden", "This is for operators only.")));
  const broken = vi.fn(() => Promise.reject(new ApiError(500, "unavailable", "The server failed.")));
  for (const [name, queryFn] of Object.entries({ forbidden, broken }))
    onTestFinished(new QueryObserver(queries, { queryKey: [name], queryFn }).subscribe(() => undefined));
  await waitFor(() => expect(queries.getQueryState(["forbidden"])?.status).toBe("error"));

  openStream(() => startLive(queries));
  await waitFor(() => expect(broken).toHaveBeenCalledTimes(2));
  expect(forbidden).toHaveBeenCalledTimes(1);
});

it("asks for lists again when a job of the map changes its state, not when it only becomes known whole", async () => {
  const queries = new QueryClient();
  const asked = vi.spyOn(queries, "invalidateQueries");
  const arrive = openStream(() => startLive(queries));
  const row = aJob({ id: 1, state: "running" });
  live.apply({ type: "map", merge: (state) => withRows(state, "job", [row], state.job) });
  await new Promise(requestAnimationFrame);
  const timesOf = (list: string) => asked.mock.calls.filter(([which]) => which?.queryKey?.join(" ") === list).length;
  // The lists of rounds are asked for with each of them, and with the lists of jobs where those are too.
  const tell = async (version: number, state: Job["state"]) => {
    const job = { kind: "job" as const, id: 1, version, data: aJob({ id: 1, version, state }) };
    const round = { kind: "round" as const, id: version, version, data: aRound({ number: version }) };
    await arrive({ type: "objects", objects: [job, round] });
    await waitFor(() => expect(timesOf("rounds")).toBe(version - 1), { timeout: 30_000 });
  };

  await tell(2, "running");
  expect(timesOf("jobs list")).toBe(0);
  await tell(3, "succeeded");
  expect(timesOf("jobs list")).toBe(1);
});

it("asks for the map once when a page opens: after the stream has begun", async () => {
  server.on("GET /map/nodes", page([]));
  const queries = new QueryClient();
  const observer = new QueryObserver(queries, mapNodesQuery);
  openStream(() => {
    const stop = startLive(queries);
    onTestFinished(observer.subscribe(() => undefined));
    return stop;
  });
  await waitFor(() => expect(observer.getCurrentResult().data).toBe(0));
  expect(server.sent("GET /map/nodes")).toHaveLength(1);
});
