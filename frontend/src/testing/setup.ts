/** Runs before each file of component tests: no request leaves the process. */

import { cleanup, configure } from "@testing-library/react";
import { afterEach, vi } from "vitest";

import { server } from "@/testing/server";

// Before any module is loaded that might keep the real one.
vi.stubGlobal("fetch", server.fetch);

// happy-dom has no popovers: what is in one is always there.
HTMLElement.prototype.hidePopover = () => undefined;

// Other tests run beside these: a second, which is usual, may not be enough for what takes milliseconds.
configure({ asyncUtilTimeout: 30_000 });

afterEach(() => {
  cleanup();
  server.reset();
  sessionStorage.clear();
});
