import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { answerOf, api, ApiError, explained, setCsrfToken } from "@/api/client";

function answer(status: number, headers: Record<string, string> = {}): Response {
  const body = status < 400 ? { id: 1 } : { code: "too_many_requests", detail: "You have 2 under way.", fields: [] };
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
  const asked = answerOf(api.GET("/jobs/{job_id}/metrics", { params: { path: { job_id: 1 } } }));
  await vi.advanceTimersByTimeAsync(1_900);
  expect(fetched).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(700);
  await expect(asked).resolves.toEqual({ id: 1 });
});

test("after a few times it says why", async () => {
  const fetched = vi.fn().mockImplementation(() => Promise.resolve(answer(429, LIMIT)));
  vi.stubGlobal("fetch", fetched);
  const asked = answerOf(api.GET("/jobs/{job_id}/metrics", { params: { path: { job_id: 1 } } })).catch(
    (error: unknown) => error,
  );
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await asked).toEqual(new ApiError(429, "too_many_requests", "You have 2 under way."));
  expect(fetched).toHaveBeenCalledTimes(4);
});

test("a wrong password is not tried again, and a page that was left asks no more", async () => {
  const fetched = vi.fn().mockResolvedValueOnce(answer(429, { "Retry-After": "2" }));
  vi.stubGlobal("fetch", fetched);
  await expect(answerOf(api.POST("/session", { body: { username: "ada", password: "wrong" } }))).rejects.toThrow(
    "You have 2 under way.",
  );
  fetched.mockResolvedValue(answer(429, LIMIT));
  const left = new AbortController();
  const asked = answerOf(api.GET("/jobs", { signal: left.signal })).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(100);
  left.abort();
  expect(await asked).toMatchObject({ name: "AbortError" });
  expect(fetched).toHaveBeenCalledTimes(2);
});

test("a request is what the schema says of it, and names the session's token only where it changes something", async () => {
  const sent: Request[] = [];
  vi.stubGlobal("fetch", (request: Request) => {
    sent.push(request);
    return Promise.resolve(answer(200));
  });
  setCsrfToken("token");
  await answerOf(api.GET("/jobs", { params: { query: { state: ["queued", "running"], q: "", tenant: undefined } } }));
  await answerOf(
    api.PUT("/tenants/{name}/members/{username}", {
      params: { path: { name: "vision", username: "a/b" } },
      body: { role: "viewer" },
    }),
  );
  expect(sent.map(({ method, url }) => `${method} ${new URL(url).pathname}${new URL(url).search}`)).toEqual([
    "GET /api/v1/jobs?state=queued%2Crunning",
    "PUT /api/v1/tenants/vision/members/a%2Fb",
  ]);
  expect(sent.map(({ headers }) => headers.get("X-CSRFToken"))).toEqual([null, "token"]);
  expect(await sent[1]?.json()).toEqual({ role: "viewer" });
});

test("a refusal says what is wrong, whoever refuses", async () => {
  const fields = [{ field: "name", problem: "It is taken.", expected: "another one" }];
  const body = JSON.stringify({ code: "invalid", detail: "1 field is wrong.", fields });
  const fetched = vi.fn().mockResolvedValueOnce(new Response(body, { status: 400 }));
  vi.stubGlobal("fetch", fetched);
  const asked = answerOf(api.GET("/nodes")).catch((error: unknown) => error as ApiError);
  expect(((await asked) as ApiError).explain("name")).toBe("It is taken; expected another one");
  const fewer = { problem: "It needs 8.", expected: "Ask for fewer, or wait." };
  expect(explained(fewer)).toBe("It needs 8. Ask for fewer, or wait.");
  const slug = "Use letters and digits.";
  expect(explained({ problem: slug, expected: slug })).toBe(slug);
  fetched.mockResolvedValueOnce(new Response("<h1>Bad gateway</h1>", { status: 502 }));
  await expect(answerOf(api.GET("/nodes"))).rejects.toMatchObject({ status: 502, code: "unavailable" });
  fetched.mockRejectedValueOnce(new TypeError("Failed to fetch"));
  await expect(answerOf(api.GET("/nodes"))).rejects.toMatchObject({ status: 0, code: "unreachable" });
});
