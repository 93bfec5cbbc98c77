import { screen, waitFor, within } from "@testing-library/react";
import { beforeEach, describe, expect, it } from "vitest";

import type { MaintenanceWindow, Reservation } from "@/api/schema";
import { jobMaintenance, nodeMaintenance } from "@/components/maintenance-words";
import { CalendarPage } from "@/features/calendar/calendar-page";
import { fieldTime, instantOf, namesIn, place } from "@/features/calendar/words";
import { renderPage, rowsOf } from "@/testing/render";
import { aNode } from "@/testing/samples";
import { Edited, page, server } from "@/testing/server";

const HOUR_MS = 3_600_000;
const at = (hours: number) => new Date(Date.now() + hours * HOUR_MS).toISOString();

const WINDOW: MaintenanceWindow = {
  id: 3,
  reason: "New fans",
  state: "announced",
  starts_at: at(2.01),
  ends_at: at(6),
  nodes: ["a1", "a2"],
  jobs: [{ id: 7, name: "bert", tenant: "vision" }],
  job_count: 1,
  made_by: "user olga",
  made_at: at(-1),
};

const RESERVATION: Reservation = {
  id: 5,
  name: "paper",
  state: "announced",
  tenant: "vision",
  user: "ann",
  virtual_cluster: "research",
  gpu_model: "V100",
  gpus: 16,
  nodes: ["a1", "a2"],
  starts_at: at(3.01),
  ends_at: at(9),
  note: "Deadline",
  made_by: "user olga",
  made_at: at(-1),
};

beforeEach(() => {
  server.on("GET /reservations", page([RESERVATION]));
  server.on("GET /reservations/5", RESERVATION);
  server.on("GET /maintenance/3", new Edited('"w3"', WINDOW));
  server.on("GET /maintenance", page([WINDOW]));
  server.on("GET /nodes", page([aNode({ name: "b1", draining: true, drain_deadline: at(1.01) }), aNode({ id: 2 })]));
});

describe("the calendar", () => {
  it("shows members when nodes close and which of their jobs are there, and lets them change nothing", async () => {
    await renderPage(CalendarPage);
    const [row] = rowsOf(await screen.findByRole("table", { name: "Maintenance windows" }));
    expect(row?.[0]).toBe("New fans#3 by olga");
    expect(row?.[1]).toBe("Announced");
    expect(row?.[2]).toContain("in 2 h");
    expect(row?.slice(3)).toEqual(["a1, a2", "job 7"]);
    expect(screen.getByRole("link", { name: "job 7" }).getAttribute("href")).toBe("/jobs/7");
    const [closing, ...others] = rowsOf(await screen.findByRole("table", { name: "Nodes drained by a deadline" }));
    expect(closing?.[0]).toBe("b1");
    expect(others).toEqual([]);
    expect(screen.queryByRole("button")).toBeNull();
    expect(server.sent("GET /maintenance")[0]?.query.state).toBe("announced,draining,open");
  });

  it("names nodes that were removed without a link to a page of theirs", async () => {
    server.on("GET /nodes", page([aNode({ name: "a1" })]));
    await renderPage(CalendarPage);
    for (const name of ["Maintenance windows", "Reservations"]) {
      const table = within(await screen.findByRole("table", { name }));
      expect(table.getByRole("link", { name: "a1" }).getAttribute("href")).toBe("/nodes/a1");
      await waitFor(() => expect(table.queryByRole("link", { name: "a2" })).toBeNull());
      expect(table.getByText("a2")).toBeTruthy();
    }
  });

  it("lets operators announce a window, and tells at its field what is refused", async () => {
    server.on("POST /maintenance", { ...WINDOW, id: 4 });
    const { user } = await renderPage(CalendarPage, { as: { isOperator: true } });
    await user.click(await screen.findByRole("button", { name: "Announce maintenance" }));
    const dialog = within(await screen.findByRole("dialog"));
    await user.type(dialog.getByLabelText("Reason"), "New belts");
    await user.type(dialog.getByLabelText("Start"), "2026-12-01T18:00");
    await user.type(dialog.getByLabelText("End"), "2026-12-01T22:00");
    await user.type(dialog.getByLabelText("Nodes"), "a1, a2");
    await user.click(dialog.getByRole("button", { name: "Announce" }));
    expect(await screen.findByText("Announced maintenance 4.")).toBeTruthy();
    expect(server.sent("POST /maintenance")[0]?.body).toEqual({
      reason: "New belts",
      starts_at: new Date("2026-12-01T18:00").toISOString(),
      ends_at: new Date("2026-12-01T22:00").toISOString(),
      nodes: ["a1", "a2"],
      racks: [],
    });
  });

  it("sends only what was changed of a window, and cancels one after a question", async () => {
    server.on("PATCH /maintenance/3", WINDOW);
    server.on("DELETE /maintenance/3", undefined);
    server.on("GET /reservations", page([]));
    const { user } = await renderPage(CalendarPage, { as: { isOperator: true } });
    await user.click(await screen.findByRole("button", { name: /^Edit/ }));
    const reason = await screen.findByLabelText("Reason");
    await user.clear(reason);
    await user.type(reason, "New belts");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await screen.findByText("Saved maintenance 3.");
    expect(server.sent("PATCH /maintenance/3")[0]?.body).toEqual({ reason: "New belts" });
    await user.click(screen.getByRole("button", { name: /^Cancel/ }));
    await user.click(await screen.findByRole("button", { name: "Cancel it" }));
    expect(await screen.findByText("Cancelled maintenance 3.")).toBeTruthy();
    expect(server.sent("DELETE /maintenance/3")).toHaveLength(1);
  });
});

describe("the reservations of the calendar", () => {
  it("show members for whom which nodes are kept, and let them change nothing", async () => {
    await renderPage(CalendarPage);
    const [row] = rowsOf(await screen.findByRole("table", { name: "Reservations" }));
    expect(row?.slice(0, 4)).toEqual([
      "paperDeadline, by olga",
      "Announced",
      "vision, ann, in research",
      "16 V100a1, a2",
    ]);
    expect(row?.[4]).toContain("in 3 h");
    expect(screen.queryByRole("button")).toBeNull();
    expect(server.sent("GET /reservations")[0]?.query.state).toBe("announced,in_force");
  });

  it("are made by operators", async () => {
    server.on("POST /reservations", { ...RESERVATION, name: "demo" });
    const { user } = await renderPage(CalendarPage, { as: { isOperator: true } });
    await user.click(await screen.findByRole("button", { name: "Reserve GPUs" }));
    const dialog = within(await screen.findByRole("dialog"));
    for (const [label, text] of [
      ["Name", "demo"],
      ["Tenant", "vision"],
      ["GPU model", "V100"],
      ["GPUs", "8"],
      ["Start", "2026-12-04T18:00"],
      ["End", "2026-12-06T08:00"],
    ] as const) {
      await user.type(dialog.getByLabelText(label), text);
    }
    await user.click(dialog.getByRole("button", { name: "Reserve" }));
    expect(await screen.findByText("Made reservation demo.")).toBeTruthy();
    expect(server.sent("POST /reservations")[0]?.body).toEqual({
      name: "demo",
      tenant: "vision",
      user: null,
      virtual_cluster: null,
      gpu_model: "V100",
      gpus: 8,
      starts_at: new Date("2026-12-04T18:00").toISOString(),
      ends_at: new Date("2026-12-06T08:00").toISOString(),
      note: "",
    });
  });

  it("send only what was changed, and are cancelled after a question", async () => {
    server.on("GET /maintenance", page([]));
    server.on("PATCH /reservations/5", RESERVATION);
    server.on("DELETE /reservations/5", undefined);
    const { user } = await renderPage(CalendarPage, { as: { isOperator: true } });
    await user.click(await screen.findByRole("button", { name: /^Edit/ }));
    const gpus = await screen.findByLabelText("GPUs");
    await user.clear(gpus);
    await user.type(gpus, "8");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await screen.findByText("Saved reservation paper.");
    expect(server.sent("PATCH /reservations/5")[0]?.body).toEqual({ gpus: 8 });
    await user.click(screen.getByRole("button", { name: /^Cancel/ }));
    await user.click(await screen.findByRole("button", { name: "Cancel it" }));
    expect(await screen.findByText("Cancelled reservation paper.")).toBeTruthy();
    expect(server.sent("DELETE /reservations/5")).toHaveLength(1);
  });
});

describe("words of windows", () => {
  const now = Date.parse("2026-01-01T12:00:00Z");
  const span = { starts_at: "2026-01-01T15:00:00Z", ends_at: "2026-01-01T18:00:00Z" };
  const notice = { id: 3, reason: "New fans.", ...span };

  it("place a window between now and the last end", () => {
    const later = { starts_at: "2026-01-01T20:00:00Z", ends_at: "2026-01-02T00:00:00Z" };
    expect(place(span, [span, later], now)).toEqual({ left: 25, width: 25 });
    expect(place({ ...span, starts_at: "2026-01-01T09:00:00Z" }, [span], now)).toEqual({ left: 0, width: 100 });
  });

  it("say what it means for a node and for a job", () => {
    expect(nodeMaintenance({ maintenance: null }, now)).toBeNull();
    expect(nodeMaintenance({ maintenance: { ...notice, state: "announced" } }, now)).toMatch(
      /^Closes for maintenance at .*, in 3 h: New fans\. Until then, only jobs that end in time start\.$/,
    );
    expect(nodeMaintenance({ maintenance: { ...notice, state: "open" } }, now)).toMatch(
      /^In maintenance until .*: New/,
    );
    expect(jobMaintenance({ maintenance: { ...notice, node: "a1", state: "announced" } }, now)).toMatch(
      /^Its node a1 closes for maintenance at .*, in 3 h: New fans\. A job/,
    );
  });

  it("read what was typed", () => {
    expect(namesIn(" a1, a2\tb3 ")).toEqual(["a1", "a2", "b3"]);
    expect(instantOf(fieldTime("2026-01-01T15:00:00Z"))).toBe("2026-01-01T15:00:00.000Z");
    expect(instantOf("soon")).toBe("soon");
  });
});
