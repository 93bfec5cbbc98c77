import { screen, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { TokensPanel } from "@/features/account/tokens-panel";
import { renderPage } from "@/testing/render";
import { page, server } from "@/testing/server";

function aToken(given: object) {
  return {
    key: "k1",
    user: "ada",
    name: "laptop",
    scopes: ["read", "submit"],
    created_at: "2026-01-01T00:00:00Z",
    first_used_at: null,
    first_used_from: null,
    last_used_at: null,
    last_used_from: null,
    expires_at: null,
    replaced_by: null,
    ...given,
  };
}

const TERMS = { default_days: 90, most_days: 365, may_never_expire: true };

describe("one's own API tokens", () => {
  it("are made with the scopes that were chosen, and shown a single time", async () => {
    const known: object[] = [];
    server.on("GET /tokens", () => page(known));
    server.on("GET /tokens/terms", TERMS);
    server.on("POST /tokens", ({ body }) => {
      known.push(aToken({ name: (body as { name: string }).name }));
      return { ...aToken({ name: "ci" }), token: "allot_secret" };
    });
    const { user } = await renderPage(TokensPanel);
    expect(await screen.findByText("No tokens")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "New token" }));
    const dialog = await screen.findByRole("dialog", { name: "New token" });
    // For operators only.
    expect(within(dialog).queryByRole("checkbox", { name: /^Operate/ })).toBeNull();
    await user.type(within(dialog).getByRole("textbox", { name: "Name" }), "ci");
    await user.click(within(dialog).getByRole("checkbox", { name: /^Manage/ }));
    await user.click(within(dialog).getByRole("button", { name: "Create" }));

    expect(await screen.findByText("allot_secret")).toBeTruthy();
    expect(server.sent("POST /tokens").map(({ body }) => body)).toEqual([
      { name: "ci", scopes: ["read", "submit", "manage"], expires_in_days: 90 },
    ]);
    await user.click(screen.getByRole("button", { name: "Done" }));
    expect(screen.queryByText("allot_secret")).toBeNull();
    expect(screen.getByRole("row", { name: /^ci/ })).toBeTruthy();
  });

  it("say what each may do, and offer no new one for what has ended", async () => {
    server.on("GET /tokens/terms", TERMS);
    server.on(
      "GET /tokens",
      page([aToken({}), aToken({ key: "k2", name: "old", expires_at: "2020-01-01T00:00:00Z" })]),
    );
    await renderPage(TokensPanel);
    const old = await screen.findByRole("row", { name: /^old/ });
    expect(within(old).getByText("expired")).toBeTruthy();
    expect(within(old).queryByRole("button", { name: "Rotate old" })).toBeNull();
    const current = screen.getByRole("row", { name: /^laptop/ });
    expect(within(current).getByText("Submit")).toBeTruthy();
    expect(within(current).getByRole("button", { name: "Rotate laptop" })).toBeTruthy();
    expect(within(current).getByRole("button", { name: "Revoke laptop" })).toBeTruthy();
  });
});
