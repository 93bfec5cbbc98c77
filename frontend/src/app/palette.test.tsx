import { screen, waitFor, within } from "@testing-library/react";
import { beforeEach, describe, expect, it } from "vitest";

import { Shell } from "@/app/shell";
import { renderPage } from "@/testing/render";
import { aJob } from "@/testing/samples";
import { page, server } from "@/testing/server";

const member = { as: { roles: { vision: "member" as const } } };

beforeEach(() => {
  server.on("GET /jobs", page([aJob({ id: 17, name: "resnet-50" })]));
  server.on("GET /nodes", page([]));
});

describe("the navigation", () => {
  const names = () =>
    within(screen.getByRole("navigation", { name: "Main" }))
      .getAllByRole("link")
      .map((link) => link.textContent);

  it("shows a member what he does every day, and the rest on demand", async () => {
    const { user } = await renderPage(Shell, member);
    const fold = screen.getByText("More").closest("details");
    expect(fold?.open).toBe(false);
    await user.click(screen.getByText("More"));
    expect(fold?.open).toBe(true);
    expect(names()).toContain("Market");
    expect(screen.queryByText("Operate")).toBeNull();
    expect(names()).not.toContain("Users");
    expect(names()).not.toContain("Audit log");
  });

  it("shows operators their pages in a group of their own", async () => {
    await renderPage(Shell, { as: { isOperator: true } });
    const fold = screen.getByText("Operate").closest("details");
    expect(fold?.open).toBe(true);
    expect(within(fold as HTMLElement).getAllByRole("link")).toHaveLength(3);
  });

  it("keeps the group of the open page open", async () => {
    await renderPage(Shell, { ...member, route: "/market" });
    expect(screen.getByText("More").closest("details")?.open).toBe(true);
  });
});

describe("the palette", () => {
  it("opens by its keys, and goes to the page that is chosen", async () => {
    const { user, address } = await renderPage(Shell, member);
    await user.keyboard("{Control>}k{/Control}");
    const field = await screen.findByRole("combobox", { name: "Page, job or node" });
    await user.type(field, "er");
    const options = screen.getAllByRole("option").map((option) => option.textContent);
    expect(options).toEqual(expect.arrayContaining(["Overview page", "Virtual clusters page"]));
    await user.keyboard("{ArrowDown}");
    expect(screen.getByRole("option", { selected: true }).textContent).toBe(options[1]);
    await user.keyboard("{Enter}");
    await waitFor(() => expect(address()).not.toBe("/"));
    expect(screen.queryByRole("combobox")).toBeNull();
  });

  it("finds jobs by name and by number", async () => {
    const { user, address } = await renderPage(Shell, member);
    await user.click(screen.getByRole("button", { name: /Go to/ }));
    await user.type(await screen.findByRole("combobox"), "resnet");
    expect(await screen.findByRole("option", { name: "resnet-50 job #17" })).toBeTruthy();
    await user.clear(screen.getByRole("combobox"));
    await user.type(screen.getByRole("combobox"), "4711{Enter}");
    await waitFor(() => expect(address()).toBe("/jobs/4711"));
  });

  it("says so where nothing has the name", async () => {
    const { user } = await renderPage(Shell, member);
    await user.keyboard("{Control>}k{/Control}");
    await user.type(await screen.findByRole("combobox"), "zzz");
    expect(screen.getByText("Nothing has this name.")).toBeTruthy();
  });
});
