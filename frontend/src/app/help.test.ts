import { expect, test } from "vitest";

import { helpFor } from "@/app/help";

test("a page has the help of its part of the dashboard", () => {
  expect(helpFor("/jobs/17")).toBe("/docs/reasons.html");
  expect(helpFor("/tokens")).toBe("/docs/api/index.html");
});

test("a page without help of its own has the start of the documentation", () => {
  expect(helpFor("/")).toBe("/docs/");
  expect(helpFor("/jobsomething")).toBe("/docs/");
});
