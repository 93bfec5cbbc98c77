import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { placesOf } from "@/app/places";
import { Shell } from "@/app/shell";
import { renderPage } from "@/testing/render";

const EVERYONES = ["Overview", "Jobs", "Nodes", "Calendar", "Virtual clusters", "Tenants"];
const OPERATORS = ["Users", "Rounds", "API tokens"];

const member = { roles: { vision: "member" as const } };
const linksOf = (name: string) =>
  within(screen.getByRole("navigation", { name }))
    .getAllByRole("link")
    .map((link) => link.textContent);

describe("the navigation", () => {
  it.each([
    ["viewer", { roles: { vision: "viewer" as const } }, EVERYONES],
    ["member", member, EVERYONES],
    ["admin of a tenant", { roles: { vision: "admin" as const } }, EVERYONES],
    ["operator", { isOperator: true }, [...EVERYONES, ...OPERATORS]],
  ])("has these entries for a %s, and nothing else", async (_role, as, expected) => {
    await renderPage(Shell, { as });
    expect(linksOf("Main")).toEqual(expected);
    const main = screen.getByRole("navigation", { name: "Main" });
    expect(within(main).queryAllByRole("button")).toEqual([]);
    const operate = within(main).queryByText("Operate")?.closest("details") ?? null;
    expect(
      operate
        ? within(operate)
            .getAllByRole("link")
            .map((link) => link.textContent)
        : [],
    ).toEqual(expected.slice(EVERYONES.length));
  });

  it("shows the other pages of an area above a page, and marks the area", async () => {
    await renderPage(Shell, { as: member, route: "/market" });
    expect(linksOf("Pages of Virtual clusters")).toEqual(["Virtual clusters", "Market", "Ledger"]);
    const marked = within(screen.getByRole("navigation", { name: "Main" }))
      .getAllByRole("link")
      .filter((link) => link.hasAttribute("aria-current"));
    expect(marked.map((link) => link.textContent)).toEqual(["Virtual clusters"]);
  });

  it("shows the audit log beside the tenants to those who may read it", async () => {
    await renderPage(Shell, { as: { roles: { vision: "admin" } }, route: "/tenants" });
    expect(linksOf("Pages of Tenants")).toEqual(["Tenants", "Usage", "Audit log"]);
  });

  it("shows nothing beside a page that is alone", async () => {
    await renderPage(Shell, { as: member, route: "/calendar" });
    expect(screen.queryByRole("navigation", { name: /^Pages of/ })).toBeNull();
  });

  it("leads to every page that a member had before", () => {
    const me = { is_operator: false, tenants: [{ name: "vision", role: "member" }] };
    const places = placesOf(me as never).map(({ to }) => to);
    for (const to of ["/failures", "/throughputs", "/events", "/cells", "/sharing", "/market", "/ledger", "/account"])
      expect(places).toContain(to);
    expect(places).not.toContain("/audit");
  });
});

describe("the foot of the navigation", () => {
  it("has the account, and a menu of what helps", async () => {
    const { user, address } = await renderPage(Shell, { as: member, route: "/cells" });
    const menu = screen.getByRole("group", { name: "Help", hidden: true });
    const links = [...menu.querySelectorAll("a")].map((link) => [link.textContent, link.getAttribute("href")]);
    expect(links).toEqual([
      ["Help for this page", "/docs/cells.html"],
      ["Documentation", "/docs/"],
      ["Glossary", "/docs/glossary.html"],
      ["REST API", "/api/docs"],
    ]);
    await user.click(within(menu).getByRole("button", { name: /Keyboard/, hidden: true }));
    expect(await screen.findByRole("dialog", { name: "Keyboard" })).toBeTruthy();
    await user.keyboard("{Escape}");
    await user.click(screen.getByRole("link", { name: /^Account of ada/ }));
    await waitFor(() => expect(address()).toBe("/account"));
  });
});
