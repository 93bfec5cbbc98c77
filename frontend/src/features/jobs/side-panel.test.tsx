import { screen, waitFor, within } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { JobsPage } from "@/features/jobs/jobs-page";
import { live } from "@/live/live";
import { renderPage } from "@/testing/render";
import { aJob, aReason, anAttempt } from "@/testing/samples";
import { page, Refusal, server } from "@/testing/server";

const member = { route: "/jobs", as: { roles: { vision: "member" as const } } };
const waits = aJob({ id: 3, name: "digits", position: 2, reasons: [aReason({})] });
waits.spec.description = "Reads digits";
const runs = aJob({
  id: 4,
  name: "faces",
  state: "running",
  phase: "running",
  started_at: "2026-01-01T00:00:00Z",
  attempts: 2,
  attempt: anAttempt({ number: 2 }),
});

beforeEach(() => {
  localStorage.clear();
  server.on("GET /jobs/counts", { queued: 1, running: 1, succeeded: 0, failed: 0, cancelled: 0 });
  server.on("GET /tenants", page([]));
  server.on("GET /virtual-clusters", page([]));
  server.on("GET /gpu-models", page([]));
  server.on("GET /jobs", page([waits, runs]));
  for (const job of [waits, runs]) server.on(`GET /jobs/${job.id}`, job);
  server.on("GET /jobs/3/why", { queue_length: 5, prediction: null, no_prediction: "" });
  server.on("GET /jobs/4/logs", {
    chunks: [{ sequence: 0, text: "step 7\nstep 8\n" }],
    next_after: 0,
    complete: false,
    truncated: false,
    removed: null,
  });
});

// Answers to what is done to a job are newer than the samples of the tests that come next.
afterEach(() => live.apply({ type: "forget" }));

const row = (name: RegExp) => screen.findByRole("row", { name });

describe("the panel beside the jobs", () => {
  it("shows the job that is chosen by a click, why it waits, and lets it be held", async () => {
    server.on("POST /jobs/3/hold", { ...waits, held: true, version: 2 });
    const { user, address } = await renderPage(JobsPage, member);
    const chosen = await row(/digits #3/);
    await user.click(within(chosen).getByText("vision"));
    const panel = await screen.findByRole("dialog", { name: "digits" });
    expect(address()).toBe("/jobs?job=3");
    expect(chosen.getAttribute("aria-current")).toBe("true");
    expect(await within(panel).findByText("4 V100 are needed and 2 are idle.")).toBeTruthy();
    expect(within(panel).getAllByRole("term")[0]?.parentElement?.textContent).toBe("DescriptionReads digits");
    expect(within(panel).getByRole("link", { name: "Whole page" }).getAttribute("href")).toBe("/jobs/3");
    await user.click(within(panel).getByRole("button", { name: "Hold" }));
    expect(await within(panel).findByRole("button", { name: "Release" })).toBeTruthy();
    expect(within(panel).queryByRole("button", { name: "Requeue" })).toBeNull();
  });

  it("shows what a running job wrote last, and lets it be requeued", async () => {
    server.on("POST /jobs/4/requeue", runs);
    const { user } = await renderPage(JobsPage, { ...member, at: "/jobs?job=4" });
    const panel = await screen.findByRole("dialog", { name: "faces" });
    expect((await within(panel).findByLabelText("Last lines of rank 0")).textContent).toContain("step 8");
    await user.click(within(panel).getByRole("button", { name: "Requeue" }));
    await waitFor(() => expect(server.sent("POST /jobs/4/requeue")).toHaveLength(1));
  });

  it("offers a viewer no action but a clone", async () => {
    await renderPage(JobsPage, { route: "/jobs", at: "/jobs?job=3", as: { roles: { vision: "viewer" } } });
    const panel = await screen.findByRole("dialog", { name: "digits" });
    expect(
      within(panel)
        .getAllByRole("button")
        .map((each) => each.getAttribute("aria-label")),
    ).toEqual(["Close"]);
    expect(within(panel).getByRole("link", { name: "Clone" })).toBeTruthy();
  });

  it("is opened, followed and closed by the keyboard, and gives the focus back", async () => {
    const { user, address } = await renderPage(JobsPage, member);
    const [first, second] = [await row(/digits #3/), await row(/faces #4/)];
    expect([first.tabIndex, second.tabIndex]).toEqual([0, -1]);
    first.focus();
    await user.keyboard("{ArrowDown}");
    expect(document.activeElement).toBe(second);
    expect(address()).toBe("/jobs");
    await user.keyboard("{Enter}");
    const panel = await screen.findByRole("dialog", { name: "faces" });
    await waitFor(() => expect(document.activeElement).toBe(panel));
    await user.keyboard("{Escape}");
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(address()).toBe("/jobs");
    await waitFor(() => expect(document.activeElement).toBe(second));

    await user.click(within(second).getByText("vision"));
    await screen.findByRole("dialog", { name: "faces" });
    expect(document.activeElement).toBe(second);
    await user.keyboard("{ArrowUp}");
    await screen.findByRole("dialog", { name: "digits" });
    expect(document.activeElement).toBe(first);
    expect(address()).toBe("/jobs?job=3");
  });

  it("stays closed when a link or a box of the row is used", async () => {
    const { user, address } = await renderPage(JobsPage, member);
    await user.click(within(await row(/digits #3/)).getByRole("checkbox"));
    expect(screen.getByText("1 job selected")).toBeTruthy();
    expect(address()).toBe("/jobs");
    expect(screen.queryByRole("dialog")).toBeNull();
  });

  it("says that there is no such job, where the address names one that cannot be seen", async () => {
    server.on("GET /jobs/9", new Refusal(404, { code: "not_found", detail: "There is no such job." }));
    await renderPage(JobsPage, { ...member, at: "/jobs?job=9" });
    const panel = await screen.findByRole("dialog", { name: "Job 9" });
    expect(await within(panel).findByText(/There is no such job/)).toBeTruthy();
  });
});
