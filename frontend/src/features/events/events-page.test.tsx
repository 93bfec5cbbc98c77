import { screen, waitFor } from "@testing-library/react";
import { beforeEach, expect, it } from "vitest";

import { EventsPage } from "@/features/events/events-page";
import { renderPage } from "@/testing/render";
import { anEvent } from "@/testing/samples";
import { page, server } from "@/testing/server";

beforeEach(() => {
  server.on("GET /tenants", page([]));
  server.on("GET /map/nodes", page([]));
  server.on("GET /events", ({ query }: { query: Record<string, string> }) =>
    page(query.job_name === "unknown" ? [] : [anEvent({})]),
  );
});

const asked = () => server.sent("GET /events").at(-1)?.query;

it("finds the events of a job by its number or its name, and keeps both in the address", async () => {
  const { user, address } = await renderPage(EventsPage, { route: "/events", at: "/events" });
  const search = await screen.findByRole("searchbox", { name: "Job: number or whole name" });
  await user.type(search, "#17");
  await waitFor(() => expect(asked()).toMatchObject({ job: "17" }));
  expect(address()).toBe("/events?job=17");
  await user.clear(search);
  await user.type(search, "unknown");
  await waitFor(() => expect(asked()).toMatchObject({ job_name: "unknown" }));
  expect(asked()).not.toHaveProperty("job");
  expect(address()).toBe("/events?job_name=unknown");
  await screen.findByText("No event matches");
});

it("links to a node by the event alone", async () => {
  server.on("GET /events", page([anEvent({ subject: "node", job: null, node: 3, node_name: "bed-3" })]));
  await renderPage(EventsPage, { route: "/events", at: "/events" });
  const link = await screen.findByRole("link", { name: "bed-3" });
  expect(link.getAttribute("href")).toBe("/nodes/bed-3");
});

it("begins from what the address says", async () => {
  await renderPage(EventsPage, { route: "/events", at: "/events?job_name=digits&kind=job.failed" });
  const search = await screen.findByRole<HTMLInputElement>("searchbox", { name: "Job: number or whole name" });
  expect(search.value).toBe("digits");
  expect(asked()).toMatchObject({ job_name: "digits", kind: "job.failed" });
});
