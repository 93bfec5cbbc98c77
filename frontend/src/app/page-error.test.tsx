import { screen } from "@testing-library/react";
import { expect, test } from "vitest";

import { PageError } from "@/app/page-error";
import { renderPage } from "@/testing/render";

test.each([
  ["Unable to preload CSS for /static/assets/dialog-sbj0scLB.css", /the server cannot be reached, or was updated/],
  ["Failed to fetch dynamically imported module: http://x/nodes.js", /the server cannot be reached, or was updated/],
  ["Cannot read properties of undefined", /Cannot read properties of undefined/],
])("says of %s what happened", async (message, told) => {
  await renderPage(() => <PageError error={new Error(message)} />);
  expect((await screen.findByRole("alert")).textContent).toMatch(told);
  expect(screen.getByRole("button", { name: "Try again" })).toBeTruthy();
});
