import { screen, within } from "@testing-library/react";
import { beforeEach, describe, expect, it } from "vitest";

import type { JobGroup } from "@/api/schema";
import { JobsPage } from "@/features/jobs/jobs-page";
import { renderPage } from "@/testing/render";
import { aJob } from "@/testing/samples";
import { page, server } from "@/testing/server";

const member = { route: "/jobs", as: { roles: { vision: "member" as const } } };
const viewer = { route: "/jobs", as: { roles: { vision: "viewer" as const } } };
const COUNTS = { queued: 92, running: 8, succeeded: 0, failed: 0, cancelled: 0 };
const ARRAY = { number: 3, size: 100, at_most: 8 };

function aGroup(fields: Partial<JobGroup>): JobGroup {
  const times = { first_submitted_at: "2026-11-25T10:00:00Z", last_submitted_at: "2026-11-25T11:00:00Z" };
  return { key: "3", name: "sweep", jobs: 100, gpus: 200, gpus_running: 16, ...COUNTS, ...times, ...fields };
}

beforeEach(() => {
  localStorage.clear();
  server.on("GET /jobs/counts", COUNTS);
  for (const list of ["tenants", "virtual-clusters", "gpu-models"]) server.on(`GET /${list}`, page([]));
});

describe("the row of an array", () => {
  beforeEach(() => {
    const tasks = [
      aJob({ id: 3, name: "sweep", array: { ...ARRAY, index: 0 }, state: "running", phase: "running" }),
      aJob({ id: 4, name: "sweep", array: { ...ARRAY, index: 1 } }),
    ];
    server.on("GET /jobs", ({ query }: { query: Record<string, string> }) =>
      page(query.array ? tasks : tasks.slice(0, 1)),
    );
  });

  it("unfolds to its tasks in their order, and folds again", async () => {
    const { user } = await renderPage(JobsPage, member);
    const unfold = await screen.findByRole("button", { name: "Jobs of sweep" });
    expect(unfold.getAttribute("aria-expanded")).toBe("false");
    await user.click(unfold);
    expect(await screen.findByText("[1]")).toBeTruthy();
    const asked = server.sent("GET /jobs").map(({ query }) => query);
    expect(asked[1]).toMatchObject({ array: "3", fold: "false", sort: "submitted" });
    await user.click(unfold);
    expect(screen.queryByText("[1]")).toBeNull();
  });

  it("lets one running task wait again", async () => {
    server.on("POST /jobs/3/requeue", aJob({ id: 3 }));
    const { user } = await renderPage(JobsPage, member);
    await user.click(await screen.findByRole("button", { name: "Jobs of sweep" }));
    // The other one waits already.
    await user.click(await screen.findByRole("button", { name: "Requeue" }));
    expect(await screen.findByText("sweep #3 stops and waits again.")).toBeTruthy();
    expect(server.sent("POST /jobs/3/requeue")).toHaveLength(1);
  });

  it("cancels the whole array after saying how many jobs that are", async () => {
    server.on("POST /jobs/actions", { jobs: 100, remaining: 0, refused: [], queued: 92, running: 8 });
    const { user } = await renderPage(JobsPage, member);
    await user.click(await screen.findByRole("button", { name: "Change the array" }));
    await user.click(await screen.findByRole("button", { name: "Cancel 100 jobs" }));
    const [, sent] = server.sent("POST /jobs/actions");
    expect(sent?.body).toMatchObject({ action: "cancel", filter: { array: "3" }, most: 100 });
  });

  it("offers viewers nothing that they may not do", async () => {
    const { user } = await renderPage(JobsPage, viewer);
    await user.click(await screen.findByRole("button", { name: "Jobs of sweep" }));
    expect(await screen.findByText("[1]")).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Requeue" })).toBeNull();
    expect(screen.queryByRole("button", { name: "Change the array" })).toBeNull();
  });
});

describe("jobs in groups", () => {
  it("are counted by the address, and unfold to the jobs of each", async () => {
    server.on("GET /jobs/groups", page([aGroup({ key: "ann", name: "sweep" }), aGroup({ key: "bob" })]));
    server.on("GET /jobs", page([aJob({ id: 9, name: "of-ann" })]));
    const { user } = await renderPage(JobsPage, { ...member, at: "/jobs?group=user&state=running" });
    const row = await screen.findByRole("row", { name: /ann/ });
    expect(within(row).getByText(/100 jobs: 92 queued, 8 running/)).toBeTruthy();
    expect(within(row).getByText("16 of 200 in use")).toBeTruthy();
    expect(server.sent("GET /jobs/groups")[0]?.query).toMatchObject({ by: "user", state: "running" });
    await user.click(within(row).getByRole("button", { name: "Jobs of ann" }));
    expect(await screen.findByText("of-ann")).toBeTruthy();
    expect(server.sent("GET /jobs")[0]?.query).toMatchObject({ submitted_by: "ann", state: "running" });
  });

  it("are chosen by a control that the address keeps", async () => {
    server.on("GET /jobs", page([]));
    server.on("GET /jobs/groups", page([aGroup({ key: null }), aGroup({ key: "a" })]));
    const { user, address } = await renderPage(JobsPage, member);
    await user.selectOptions(await screen.findByLabelText("Group by"), "Group by: label");
    await user.type(await screen.findByLabelText("Name of the label"), "team");
    expect(await screen.findByText("Without label team")).toBeTruthy();
    expect(address()).toContain(encodeURIComponent("label:team"));
    expect(server.sent("GET /jobs/groups").at(-1)?.query).toMatchObject({ by: "label:team" });
    // What has no such label cannot be asked for alone.
    expect(screen.getAllByRole("button", { name: /^Jobs of/ })).toHaveLength(1);
    await user.selectOptions(screen.getByLabelText("Group by"), "Group by: none");
    expect(await screen.findByText("No jobs yet")).toBeTruthy();
    expect(address()).not.toContain("group");
  });
});
