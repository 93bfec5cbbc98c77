import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { ApiError, request } from "@/api/client";

function answer(status: number, headers: Record<string, string> = {}): Response {
  const body = status < 400 ? { id: 1 } : { error: "too_many_requests", message: "You have 2 under way.", fields: [] };
  return new Response(JSON.stringify(body), { status, headers });
}

const LIMIT = { "Retry-After": "2", "RateLimit-Policy": '"heavy-requests-of-user";q=2;qu="concurrent-requests"' };

beforeEach(() => {
  vi.useFakeTimers();
});

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("who has too much under way waits as told and asks again", async () => {
  const fetched = vi.fn().mockResolvedValueOnce(answer(429, LIMIT)).mockResolvedValueOnce(answer(200));
  vi.stubGlobal("fetch", fetched);
  const asked = request("GET", "/jobs/1/metrics");
  await vi.advanceTimersByTimeAsync(1_900);
  expect(fetched).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(700);
  await expect(asked).resolves.toEqual({ id: 1 });
});

test("after a few times it says why", async () => {
  const fetched = vi.fn().mockImplementation(() => Promise.resolve(answer(429, LIMIT)));
  vi.stubGlobal("fetch", fetched);
  const asked = request("GET", "/jobs/1/metrics").catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await asked).toEqual(new ApiError(429, "too_many_requests", "You have 2 under way."));
  expect(fetched).toHaveBeenCalledTimes(4);
});

test("a wrong password is not tried again, and a page that was left asks no more", async () => {
  const fetched = vi.fn().mockResolvedValueOnce(answer(429, { "Retry-After": "2" }));
  vi.stubGlobal("fetch", fetched);
  await expect(request("POST", "/session", { body: {} })).rejects.toThrow("You have 2 under way.");
  fetched.mockResolvedValue(answer(429, LIMIT));
  const left = new AbortController();
  const asked = request("GET", "/jobs", { signal: left.signal }).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(100);
  left.abort();
  expect(await asked).toMatchObject({ name: "AbortError" });
  expect(fetched).toHaveBeenCalledTimes(2);
});
