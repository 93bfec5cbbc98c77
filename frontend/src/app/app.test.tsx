import { createMemoryHistory, createRootRoute, createRouter } from "@tanstack/react-router";
import { render, screen } from "@testing-library/react";
import { useEffect } from "react";
import { expect, test, vi } from "vitest";

import { changingHeaders } from "@/api/client";
import { App } from "@/app/app";
import { server } from "@/testing/server";

const sent: unknown[] = [];

function Page() {
  // As a query that posts does, when the page is first shown.
  useEffect(() => void sent.push(changingHeaders()["X-CSRFToken"]), []);
  return <p>A page</p>;
}

vi.mock("@/app/live-queries", () => ({ startLive: () => undefined }));
vi.mock("@/app/router", () => ({
  router: createRouter({ routeTree: createRootRoute({ component: () => <Page /> }), history: createMemoryHistory() }),
}));

test("what a page sends first has the token of the session", async () => {
  server.on("GET /session", { user: { username: "ada" }, csrf_token: "token of the session" });
  render(<App />);
  expect(await screen.findByText("A page")).toBeTruthy();
  expect(sent).toEqual(["token of the session"]);
});
