import { screen, waitFor, within } from "@testing-library/react";
import { beforeEach, describe, expect, it } from "vitest";

import { Shell } from "@/app/shell";
import { renderPage } from "@/testing/render";
import { aJob } from "@/testing/samples";
import { page, server } from "@/testing/server";

const member = { as: { roles: { vision: "member" as const } } };

/** Answers of the server by what is searched for, as it would find them. */
function finds(route: string, field: string, objects: readonly object[]) {
  server.on(route, ({ query }: { query: Record<string, string> }) =>
    page(objects.filter((one) => String((one as Record<string, unknown>)[field]).includes(query.q ?? ""))),
  );
}

beforeEach(() => {
  finds("GET /jobs", "name", [aJob({ id: 17, name: "resnet-50" })]);
  finds("GET /nodes", "name", [{ name: "rack1-a" }]);
  finds("GET /virtual-clusters", "name", [{ name: "research", title: "Research" }]);
  finds("GET /tenants", "name", [{ name: "vision", title: "Computer vision" }]);
  finds("GET /tenants/vision/members", "username", [{ username: "rosa", role: "member" }]);
  finds("GET /users", "username", [{ username: "rosa" }, { username: "roland" }]);
});

describe("the palette", () => {
  const open = async (as: object = member) => {
    const { user, address } = await renderPage(Shell, as);
    await user.keyboard("{Control>}k{/Control}");
    return { user, address, field: await screen.findByRole("combobox") };
  };
  const options = () => screen.getAllByRole("option").map((option) => option.textContent);

  it("opens by its keys, and goes to the page that is chosen", async () => {
    const { user, address, field } = await open();
    await user.type(field, "er");
    expect(options()).toEqual(expect.arrayContaining(["Overview page", "Virtual clusters page"]));
    await user.keyboard("{ArrowDown}");
    expect(screen.getByRole("option", { selected: true }).textContent).toBe(options()[1]);
    await user.keyboard("{Enter}");
    await waitFor(() => expect(address()).not.toBe("/"));
    expect(screen.queryByRole("combobox")).toBeNull();
  });

  it("has the pages that are no entry of the navigation", async () => {
    await open();
    expect(options()).toEqual(expect.arrayContaining(["Ledger page", "Account page", "Submit a job page"]));
    expect(options()).not.toContain("Users page");
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

  it.each([
    ["rack1", "rack1-a node", "/nodes/rack1-a"],
    ["resea", "Research (research) virtual cluster", "/virtual-clusters#research"],
    ["vision", "Computer vision (vision) tenant", "/tenants/vision"],
    ["rosa", "rosa user, vision", "/tenants/vision"],
  ])("finds %s, asks the server for a few, and goes there", async (typed, name, to) => {
    const { user, address, field } = await open();
    await user.type(field, typed);
    await user.click(await screen.findByRole("option", { name }));
    await waitFor(() => expect(address()).toBe(to));
    const [asked] = server.sent("GET /nodes").slice(-1);
    expect(asked?.query).toEqual({ q: typed, page_size: "6" });
    expect(server.sent("GET /users")).toEqual([]);
  });

  it("finds all users for an operator", async () => {
    const { user, address, field } = await open({ as: { isOperator: true } });
    await user.type(field, "rol");
    await user.click(await screen.findByRole("option", { name: "roland user" }));
    await waitFor(() => expect(address()).toBe("/users?q=roland"));
    expect(server.sent("GET /tenants/vision/members")).toEqual([]);
  });

  it("shows what it found of other kinds where one cannot be searched", async () => {
    server.on("GET /jobs", () => {
      throw new Error("gone");
    });
    const { user, field } = await open();
    await user.type(field, "rack");
    expect(await screen.findByRole("option", { name: "rack1-a node" })).toBeTruthy();
  });

  it("says so where nothing has the name", async () => {
    const { user, field } = await open();
    await user.type(field, "zzz");
    expect(await screen.findByText("Nothing has this name.")).toBeTruthy();
  });
});

describe("the keys of every page", () => {
  it("show the table of all keys", async () => {
    const { user } = await renderPage(Shell, member);
    await user.keyboard("?");
    const help = await screen.findByRole("dialog", { name: "Keyboard" });
    expect(within(help).getByText("Ctrl K")).toBeTruthy();
    expect(within(help).getByText("Previous match")).toBeTruthy();
    expect(within(help).getByText("Shift Enter")).toBeTruthy();
  });

  it("write letters where one types", async () => {
    const { user } = await renderPage(Shell, member);
    await user.keyboard("{Control>}k{/Control}");
    await user.type(await screen.findByRole("combobox"), "?");
    expect(screen.queryByRole("dialog", { name: "Keyboard" })).toBeNull();
  });

  it("search: the field of the page, or the palette where it has none", async () => {
    const { user } = await renderPage(Shell, member);
    await user.keyboard("/");
    expect(await screen.findByRole("dialog", { name: "Go to" })).toBeTruthy();
    await user.keyboard("{Escape}");
    const field = document.createElement("input");
    field.type = "search";
    document.querySelector("main")?.append(field);
    await user.keyboard("/");
    expect(document.activeElement).toBe(field);
    expect(field.value).toBe("");
  });
});
