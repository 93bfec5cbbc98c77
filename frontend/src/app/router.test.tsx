import { createMemoryHistory, isNotFound } from "@tanstack/react-router";
import { expect, test } from "vitest";

import { router } from "@/app/router";

test.each([
  ["/jobs/abc", true],
  ["/jobs/1.5", true],
  ["/rounds/x", true],
  ["/rounds/3", false],
])("whether %s is no page", async (address, isNone) => {
  router.update({ ...router.options, history: createMemoryHistory({ initialEntries: [address] }) });
  await router.load();
  expect(router.state.matches.some(({ error }) => isNotFound(error))).toBe(isNone);
});
