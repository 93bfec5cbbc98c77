import { afterEach, expect, test, vi } from "vitest";

import { codeOf, UNREACHABLE } from "@/app/lazy-page";

const missing = new Error("Failed to fetch dynamically imported module: http://x/nodes.js");

afterEach(() => vi.unstubAllGlobals());

test("leaves a file that is missing to the router where the server answers", async () => {
  vi.stubGlobal("fetch", () => Promise.resolve(new Response("ok")));
  await expect(codeOf(() => Promise.reject(missing))).rejects.toBe(missing);
});

test("says that the server cannot be reached where it does not", async () => {
  vi.stubGlobal("fetch", () => Promise.reject(new TypeError("Failed to fetch")));
  await expect(codeOf(() => Promise.reject(missing))).rejects.toThrow(UNREACHABLE);
});
