import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { leavingText } from "@/features/users/deactivate";
import { UsersPage } from "@/features/users/users-page";
import { renderPage } from "@/testing/render";
import { page, Refusal, server } from "@/testing/server";

function aUser(given: object) {
  return {
    username: "ann",
    email: "ann@example.org",
    is_operator: false,
    is_active: true,
    date_joined: "2026-01-01T00:00:00Z",
    last_login: null,
    last_seen_at: null,
    tenants: [{ name: "vision", role: "admin" }],
    ...given,
  };
}

const NONE = { running: 0, held: 0, cancelled: 0, remaining: 0 };

async function open(users: readonly object[], at = "/users") {
  server.on("GET /users", () => page(users));
  server.on("GET /tenants", page([{ name: "vision" }, { name: "speech" }]));
  return renderPage(UsersPage, { route: "/users", at, as: { username: "olga", isOperator: true } });
}

describe("the page of users", () => {
  it("says of each user the tenants, when it was seen, and whether it can sign in", async () => {
    await open([
      aUser({ last_seen_at: "2020-01-01T00:00:00Z" }),
      aUser({ username: "bob", email: "", is_active: false, tenants: [] }),
      aUser({ username: "olga", is_operator: true, tenants: [] }),
    ]);
    const ann = await screen.findByRole("row", { name: /^ann/ });
    expect(within(ann).getByRole("link", { name: "vision" }).getAttribute("href")).toBe("/tenants/vision");
    expect(ann.textContent).toContain("Admin");
    expect(ann.textContent).toMatch(/ago|2020/);
    const bob = screen.getByRole("row", { name: /^bob/ });
    expect(within(bob).getByText("Deactivated")).toBeTruthy();
    expect(within(bob).getByText("never")).toBeTruthy();
    // An operator does not close the own account.
    const olga = screen.getByRole("row", { name: /^olga/ });
    expect(within(olga).queryByRole("button")).toBeNull();
    expect(within(olga).getByText("Operator")).toBeTruthy();
  });

  it("keeps what is searched for in its address, and asks the server for it", async () => {
    const { user, address } = await open([aUser({})], "/users?state=inactive");
    await screen.findByRole("row", { name: /^ann/ });
    expect(server.sent("GET /users").at(-1)?.query).toMatchObject({ is_active: "false" });
    await user.selectOptions(screen.getByRole("combobox", { name: "Tenant" }), "speech");
    await user.type(screen.getByRole("searchbox"), "ann");
    await waitFor(() =>
      expect(server.sent("GET /users").at(-1)?.query).toMatchObject({
        q: "ann",
        tenant: "speech",
        is_active: "false",
      }),
    );
    expect(address()).toContain("q=ann");
  });

  it("says what becomes of the jobs before an account is closed", async () => {
    const users = [aUser({})];
    server.on("POST /users/ann/deactivate", ({ body }) => {
      const { jobs, dry_run: isDryRun } = body as { jobs: string; dry_run: boolean };
      if (!isDryRun) users[0] = aUser({ is_active: false });
      return jobs === "hold" ? { ...NONE, running: 1, held: 3 } : { ...NONE, cancelled: 4 };
    });
    const { user } = await open(users);
    await user.click(await screen.findByRole("button", { name: "Deactivate ann" }));
    const dialog = await screen.findByRole("alertdialog", { name: "Deactivate ann?" });
    expect(await within(dialog).findByText(/^1 running job to go on, 3 waiting jobs to be held/)).toBeTruthy();
    await user.selectOptions(within(dialog).getByRole("combobox"), "All are cancelled");
    expect(await within(dialog).findByText("4 jobs to be cancelled.")).toBeTruthy();
    expect(server.sent("POST /users/ann/deactivate").every(({ body }) => (body as { dry_run: boolean }).dry_run)).toBe(
      true,
    );
    await user.click(within(dialog).getByRole("button", { name: "Deactivate" }));
    expect(await screen.findByRole("button", { name: "Reactivate ann" })).toBeTruthy();
    expect(server.sent("POST /users/ann/deactivate").at(-1)?.body).toEqual({ jobs: "cancel", dry_run: false });
  });

  it("asks again while running jobs are left to cancel", async () => {
    let left = 2;
    server.on("POST /users/ann/deactivate", ({ body }) => {
      if ((body as { dry_run: boolean }).dry_run) return { ...NONE, cancelled: 3 };
      return { ...NONE, cancelled: 1, remaining: left-- };
    });
    const { user } = await open([aUser({})]);
    await user.click(await screen.findByRole("button", { name: "Deactivate ann" }));
    await user.click(screen.getByRole("button", { name: "Deactivate" }));
    await waitFor(() => expect(screen.queryByRole("alertdialog")).toBeNull());
    expect(left).toBe(-1);
  });

  it("stays open and says why when the server refuses", async () => {
    server.on("POST /users/ann/deactivate", ({ body }) =>
      (body as { dry_run: boolean }).dry_run ? NONE : new Refusal(409, { code: "conflict", detail: "The last one." }),
    );
    const { user } = await open([aUser({})]);
    await user.click(await screen.findByRole("button", { name: "Deactivate ann" }));
    expect(await screen.findByText("The user has no unfinished jobs.")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Deactivate" }));
    expect(await screen.findByText("The last one.")).toBeTruthy();
    expect(await screen.findByRole("alertdialog")).toBeTruthy();
  });

  it("lets a user sign in again", async () => {
    const users = [aUser({ is_active: false })];
    server.on("PATCH /users/ann", () => (users[0] = aUser({})));
    const { user } = await open(users);
    await user.click(await screen.findByRole("button", { name: "Reactivate ann" }));
    expect(await screen.findByRole("button", { name: "Deactivate ann" })).toBeTruthy();
    expect(server.sent("PATCH /users/ann").map(({ body }) => body)).toEqual([{ is_active: true }]);
  });
});

describe("what becomes of jobs", () => {
  it("is said in one sentence", () => {
    expect(leavingText({ ...NONE, running: 2 })).toBe("2 running jobs to go on.");
    expect(leavingText(NONE)).toBe("The user has no unfinished jobs.");
  });
});
