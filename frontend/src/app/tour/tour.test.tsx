import { screen, waitFor, within } from "@testing-library/react";
import { beforeEach, describe, expect, it } from "vitest";

import { Shell } from "@/app/shell";
import { renderPage } from "@/testing/render";
import { server } from "@/testing/server";

const member = { roles: { vision: "member" as const } };

beforeEach(() => server.on("PUT /session/tour", undefined));

const tour = () => screen.findByRole("dialog");
const titleOf = (dialog: HTMLElement) => within(dialog).getByRole("heading").textContent;

async function titles(user: { click: (element: HTMLElement) => Promise<void> }): Promise<string[]> {
  const dialog = await tour();
  const found = [titleOf(dialog)];
  for (let next; (next = within(dialog).queryByRole("button", { name: "Next" }));) {
    await user.click(next);
    found.push(titleOf(dialog));
  }
  return found;
}

describe("the tour", () => {
  it("shows a member the first things, and is stored as seen at its end", async () => {
    const { user } = await renderPage(Shell, { as: { ...member, sawTour: false } });
    expect(await titles(user)).toEqual([
      "Submit a job",
      "GPUs of your tenants",
      "Why a job waits",
      "Go anywhere",
      "Help and documentation",
    ]);
    expect(server.sent("PUT /session/tour")).toEqual([]);
    await user.click(screen.getByRole("button", { name: "Done" }));
    expect(screen.queryByRole("dialog")).toBeNull();
    await waitFor(() => expect(server.sent("PUT /session/tour").map(({ body }) => body)).toEqual([{ seen: true }]));
  });

  it("shows each role its own steps, six at most", async () => {
    const operator = await renderPage(Shell, { as: { isOperator: true, sawTour: false } });
    const first = await titles(operator.user);
    expect(first.slice(0, 2)).toEqual(["Add nodes", "Share the GPUs out"]);
    expect(first).toHaveLength(6);
  });

  it("shows the admin of a tenant where members are invited", async () => {
    const { user } = await renderPage(Shell, { as: { roles: { vision: "admin" }, sawTour: false } });
    const found = await titles(user);
    expect(found).toContain("Your tenant");
    expect(found).toHaveLength(6);
  });

  it("offers no submission to a user who may not submit", async () => {
    const { user } = await renderPage(Shell, { as: { roles: { vision: "viewer" }, sawTour: false } });
    expect(await titles(user)).not.toContain("Submit a job");
  });

  it("ends by Escape, leaves the page focused, and goes on where it was left", async () => {
    const { user } = await renderPage(Shell, { as: { ...member, sawTour: false } });
    await user.click(within(await tour()).getByRole("button", { name: "Next" }));
    await user.keyboard("{Escape}");
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(server.sent("PUT /session/tour")).toHaveLength(1);
    await waitFor(() => expect(document.activeElement?.id).toBe("main"));

    await user.click(screen.getByRole("button", { name: "Tour", hidden: true }));
    expect(titleOf(await tour())).toBe("GPUs of your tenants");
    await user.click(within(await tour()).getByRole("button", { name: "Skip" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
  });

  it("does not come back to a user who saw it, nor over a page that was asked for", async () => {
    await renderPage(Shell, { as: { ...member, sawTour: true } });
    expect(screen.queryByRole("dialog")).toBeNull();
    const { user, address } = await renderPage(Shell, { route: "/nodes", as: { ...member, sawTour: false } });
    expect(screen.queryByRole("dialog")).toBeNull();
    // Two shells are drawn: the second is the one on the nodes' page.
    for (const button of screen.getAllByRole("button", { name: "Tour", hidden: true }).slice(1))
      await user.click(button);
    await waitFor(() => expect(address()).toBe("/"));
  });
});
