/** Runs before each file of component tests: no request leaves the process. */

import { cleanup } from "@testing-library/react";
import { afterEach, vi } from "vitest";

import { server } from "@/testing/server";

// Before any module is loaded that might keep the real one.
vi.stubGlobal("fetch", server.fetch);

afterEach(() => {
  cleanup();
  server.reset();
  sessionStorage.clear();
});
