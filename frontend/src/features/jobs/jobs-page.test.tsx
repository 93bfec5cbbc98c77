import { cleanup, screen, waitFor, within } from "@testing-library/react";
import { beforeEach, describe, expect, it } from "vitest";

import { moment } from "@/components/format";
import { JobsPage } from "@/features/jobs/jobs-page";
import { renderPage } from "@/testing/render";
import { aJob, aReason, anAttempt } from "@/testing/samples";
import { page, Refusal, server } from "@/testing/server";
import { openStream } from "@/testing/stream";

const member = { route: "/jobs", as: { roles: { vision: "member" as const } } };
const COUNTS = { queued: 1, running: 1, succeeded: 0, failed: 0, cancelled: 0 };

beforeEach(() => {
  localStorage.clear();
  server.on("GET /jobs/counts", COUNTS);
  server.on("GET /tenants", page([]));
  server.on("GET /virtual-clusters", page([]));
  server.on("GET /gpu-models", page([]));
});

describe("the jobs table", () => {
  it("shows each job with what it waits for", async () => {
    server.on("GET /jobs", page([aJob({ id: 3, name: "digits", position: 2, reasons: [aReason({})] })]));
    await renderPage(JobsPage, member);
    const row = await screen.findByRole("row", { name: /digits #3/ });
    expect(document.title).toBe("Jobs - Allotment");
    expect(within(row).getByRole("link", { name: "digits" }).getAttribute("href")).toBe("/jobs/3");
    const reason = "No. 2. 4 V100 are needed and 2 are idle.";
    expect(within(row).getByText(reason).title).toBe(reason);
  });

  it("tells until when a job waits as the viewer's clock has it", async () => {
    const begins = "2026-11-25T22:30:00Z";
    const reasons = [aReason({ message: "It may start at 22:30:00 UTC on 25 November." })];
    server.on("GET /jobs", page([aJob({ id: 3, reasons })]));
    await renderPage(JobsPage, member);
    expect(await screen.findByText(`It may start at ${moment(begins)}.`)).toBeDefined();
    expect(screen.queryByText(/UTC/)).toBeNull();
  });

  it("shows how many GPUs an elastic job has while it runs, and its range", async () => {
    const gpus = [0, 1, 2].map((index) => ({ id: index, index }));
    const placement = [{ node: "n1", node_id: 1, gpus, ranks: [0, 1, 2], state: "running", enforcement: "" as const }];
    const { spec } = aJob({});
    const elastic = { gpus: 2, spec: { ...spec, elastic: { min_gpus: 1, max_gpus: 4 } } };
    const running = { state: "running" as const, phase: "running" as const };
    server.on(
      "GET /jobs",
      page([
        aJob({ ...elastic, ...running, id: 3, name: "grown", attempt: anAttempt({ placement }) }),
        aJob({ ...elastic, id: 4, name: "waiting" }),
        aJob({ ...running, id: 5, gpus: 3, name: "rigid", attempt: anAttempt({ placement }) }),
      ]),
    );
    await renderPage(JobsPage, member);
    const texts = async (name: RegExp) => {
      const cells = within(await screen.findByRole("row", { name })).getAllByRole("cell");
      return cells.map((cell) => cell.textContent);
    };
    expect(await texts(/grown/)).toContain("3 (1-4) V100");
    expect((await texts(/waiting/)).some((text) => text.startsWith("2 "))).toBe(true);
    expect(await texts(/rigid/)).toContain("3 V100");
  });

  it("shows what the stream brings without asking again, and nothing older than it knows", async () => {
    server.on("GET /jobs", page([aJob({ id: 3, version: 1 }), aJob({ id: 4, name: "other", version: 1 })]));
    const arrive = openStream();
    await renderPage(JobsPage, member);
    const row = await screen.findByRole("row", { name: /digits #3/ });
    expect(within(row).getAllByText("Queued")).not.toHaveLength(0);

    const attempt = { ...anAttempt({ gpu_model: "A100" }), job: 3 };
    const running = aJob({ id: 3, version: 3, state: "running", phase: "running", attempt });
    await arrive({ type: "objects", objects: [{ kind: "job", id: 3, version: 3, data: running }] });
    expect(within(row).getAllByText("Running")).not.toHaveLength(0);
    expect(within(row).getByText("A100")).toBeTruthy();

    const late = aJob({ id: 3, version: 2, state: "failed", message: "It came late." });
    await arrive({ type: "objects", objects: [{ kind: "job", id: 3, version: 2, data: late }] });
    expect(within(row).getAllByText("Running")).not.toHaveLength(0);
    expect(screen.queryByText("It came late.")).toBeNull();
    expect(server.sent("GET /jobs")).toHaveLength(1);
  });

  it("shows an array as one row, which leads to its tasks", async () => {
    const array = { number: 3, index: 0, size: 100, at_most: 8 };
    server.on("GET /jobs", page([aJob({ id: 3, array })]));
    server.on("GET /jobs/counts", { queued: 92, running: 8, succeeded: 0, failed: 0, cancelled: 0 });
    await renderPage(JobsPage, member);
    const link = await screen.findByRole("link", { name: "array of 100: 92 queued, 8 running" });
    expect(link.getAttribute("href")).toContain("array=");
    expect(screen.getAllByText("Running").length).toBeGreaterThan(1);
    expect(server.sent("GET /jobs")[0]?.query).toMatchObject({ fold: "true" });
  });

  it("lists the tasks of an array one by one", async () => {
    const array = { number: 3, index: 7, size: 100, at_most: null };
    server.on("GET /jobs", page([aJob({ id: 10, array })]));
    await renderPage(JobsPage, { ...member, at: "/jobs?array=3" });
    const row = await screen.findByRole("row", { name: /digits #10/ });
    expect(within(row).getByText("[7]")).toBeTruthy();
    expect(server.sent("GET /jobs")[0]?.query).toMatchObject({ fold: "false", array: "3" });
  });

  it("lets people select jobs one by one or all together, and compare two to eight of them", async () => {
    const ended = aJob({ id: 5, name: "old", state: "succeeded", ended_at: "2026-01-01T01:00:00Z" });
    server.on("GET /jobs", page([aJob({ id: 3 }), aJob({ id: 4, name: "other" }), ended]));
    const { user } = await renderPage(JobsPage, member);
    await user.click(await screen.findByRole("checkbox", { name: "Select old" }));
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Compare" }).disabled).toBe(true);
    await user.click(screen.getByRole("checkbox", { name: "Select all on this page" }));
    expect(screen.getByRole("link", { name: "Compare" }).getAttribute("href")).toBe("/compare?jobs=3%2C4%2C5");
    expect(screen.getByRole<HTMLInputElement>("checkbox", { name: "Select digits" }).checked).toBe(true);
    expect(screen.getByRole<HTMLInputElement>("checkbox", { name: "Select other" }).checked).toBe(true);
    expect(screen.getByText(/3 jobs selected/)).toBeTruthy();
    await user.click(screen.getByRole("checkbox", { name: "Select other" }));
    expect(screen.getByRole<HTMLInputElement>("checkbox", { name: "Select all on this page" }).checked).toBe(false);
  });

  it("changes what is selected after saying how many that are", async () => {
    server.on("GET /jobs", page([aJob({ id: 3 }), aJob({ id: 4, name: "other" })]));
    const found = { jobs: 2, remaining: 0, refused: [], queued: 1, running: 1 };
    server.on("POST /jobs/actions", found);
    const { user } = await renderPage(JobsPage, member);
    await user.click(await screen.findByRole("checkbox", { name: "Select all on this page" }));
    await user.click(screen.getByRole("button", { name: "Change the selected" }));
    expect(await screen.findByText("It changes 2 jobs: 1 waiting one, 1 running one.")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Cancel 2 jobs" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(screen.queryByText("2 jobs selected")).toBeNull();
    expect(server.sent("POST /jobs/actions").map(({ body }) => body)).toEqual([
      { action: "cancel", filter: { id: "3,4" }, dry_run: true },
      { action: "cancel", filter: { id: "3,4" }, most: 2 },
    ]);
  });

  it("changes all that match, request by request, and says what could not be", async () => {
    server.on("GET /jobs", page([aJob({ id: 3 })]));
    const refused = [{ job: 9, message: "Job 9 has ended already." }];
    server.on("POST /jobs/actions", ({ body }) => {
      const { dry_run: isDry, most } = body as { dry_run?: boolean; most?: number };
      if (isDry) return { jobs: 300, remaining: 0, refused: [], queued: 300, running: 0 };
      return most === 300
        ? { jobs: 200, remaining: 100, refused: [], queued: null, running: null }
        : { jobs: 99, remaining: 0, refused, queued: null, running: null };
    });
    const { user } = await renderPage(JobsPage, { ...member, at: "/jobs?label=sweep&within=24h" });
    await user.click(await screen.findByRole("button", { name: "Change all that match" }));
    await user.selectOptions(screen.getByLabelText("Action"), "Set label");
    await user.type(within(screen.getByRole("dialog")).getByLabelText("Label"), "paper");
    await user.type(screen.getByLabelText("Value"), "osdi");
    await user.click(await screen.findByRole("button", { name: "Change 300 jobs" }));
    expect(await screen.findByText("Change: 299 jobs.")).toBeTruthy();
    expect(screen.getByText("1 job could not be changed.")).toBeTruthy();
    const bodies = server.sent("POST /jobs/actions").map(({ body }) => body as Record<string, unknown>);
    const last = bodies.at(-1);
    expect(last).toMatchObject({ action: "update", labels: { paper: "osdi" }, most: 100 });
    expect(last?.filter).toMatchObject({ label: "sweep", since: expect.any(String) as string });
  });

  it("asks the server for the order that a header names, for its reverse, and for the usual one", async () => {
    server.on("GET /jobs", page([aJob({ id: 3 })]));
    const { user, address } = await renderPage(JobsPage, member);
    const header = async () => await screen.findByRole("columnheader", { name: "GPUs" });
    const sorts: (string | null)[] = [];
    for (const sort of ["-gpus", "gpus", undefined]) {
      await user.click(within(await header()).getByRole("button"));
      await waitFor(() => expect(server.sent("GET /jobs").at(-1)?.query.sort).toBe(sort));
      sorts.push((await header()).getAttribute("aria-sort"));
    }
    expect(sorts).toEqual(["descending", "ascending", null]);
    expect(address()).toBe("/jobs");
  });

  it("shows the columns that a person has chosen, also the next time", async () => {
    server.on("GET /jobs", page([aJob({ id: 3, labels: { sweep: "lr" } })]));
    const { user } = await renderPage(JobsPage, member);
    await user.click(await screen.findByRole("button", { name: "Columns" }));
    await user.click(screen.getByRole("checkbox", { name: "Labels" }));
    await user.click(screen.getByRole("checkbox", { name: "Tenant" }));
    await user.click(screen.getByRole("button", { name: "Done" }));
    cleanup();
    await renderPage(JobsPage, member);
    expect(await screen.findByText("sweep: lr")).toBeTruthy();
    expect(screen.queryByRole("columnheader", { name: "Tenant" })).toBeNull();
  });

  it("opens saved searches, and saves the present one for a tenant", async () => {
    server.on("GET /jobs", page([aJob({ id: 3 })]));
    const saved = {
      id: 5,
      name: "failed",
      search: "state=failed&within=24h",
      tenant: null,
      owner: "ada",
      may_delete: true,
    };
    server.on("GET /jobs/searches", page([saved]));
    server.on("POST /jobs/searches", { ...saved, id: 6 });
    const { user, address } = await renderPage(JobsPage, { ...member, at: "/jobs?state=running" });
    await user.click(await screen.findByRole("button", { name: "Saved searches" }));
    await user.type(await screen.findByLabelText("Name of this search"), "runs");
    await user.selectOptions(screen.getByLabelText("For"), "everybody in vision");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() =>
      expect(server.sent("POST /jobs/searches")[0]?.body).toEqual({
        name: "runs",
        search: "state=running",
        tenant: "vision",
      }),
    );
    await user.click(await screen.findByRole("link", { name: "failed" }));
    expect(address()).toContain("state=failed");
  });

  it("goes from page to page by the server's cursors", async () => {
    server.on("GET /jobs", ({ query }) =>
      query.cursor === "c2"
        ? page([aJob({ id: 1, name: "first" })])
        : page([aJob({ id: 9, name: "last" })], "http://allotment.test/api/v1/jobs?cursor=c2"),
    );
    const { user } = await renderPage(JobsPage, member);
    await screen.findByRole("row", { name: /last #9/ });
    await user.click(screen.getByRole("button", { name: "Older" }));
    expect(await screen.findByRole("row", { name: /first #1/ })).toBeTruthy();
    expect(screen.queryByRole("row", { name: /last #9/ })).toBeNull();
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Older" }).disabled).toBe(true);
    await user.click(screen.getByRole("button", { name: "Newer" }));
    expect(await screen.findByRole("row", { name: /last #9/ })).toBeTruthy();
  });

  it("says what to do where there are none, and what went wrong where the server refuses", async () => {
    server.on("GET /jobs", page([]));
    const { user } = await renderPage(JobsPage, member);
    expect(await screen.findByText("No jobs yet")).toBeTruthy();
    expect(screen.getByRole("link", { name: "Submit a job" })).toBeTruthy();

    server.on("GET /jobs", new Refusal(400, { code: "invalid", detail: "No such state." }));
    await user.click(screen.getByRole("button", { name: /^Running/ }));
    await waitFor(() => expect(screen.getByRole("alert").textContent).toContain("No such state."));
    expect(screen.queryByText("No jobs yet")).toBeNull();
  });
});
