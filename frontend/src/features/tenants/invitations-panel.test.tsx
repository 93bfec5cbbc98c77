import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { InvitationsPanel } from "@/features/tenants/invitations-panel";
import { renderPage } from "@/testing/render";
import { page, server } from "@/testing/server";

function anInvitation(given: object) {
  return {
    key: "i1",
    role: "member",
    email: "",
    mailed: false,
    invited_by: "ada",
    created_at: "2026-01-01T00:00:00Z",
    expires_at: "2020-01-01T00:00:00Z",
    ...given,
  };
}

const Panel = () => <InvitationsPanel tenant="vision" />;

describe("invitations into a tenant", () => {
  it("are made by a form, and their link is shown once", async () => {
    const known: object[] = [];
    server.on("GET /tenants/vision/invitations", () => page(known));
    server.on("POST /tenants/vision/invitations", () => {
      known.push(anInvitation({ role: "admin" }));
      return { ...anInvitation({ role: "admin" }), link: "http://allotment.test/invitation#secret" };
    });
    const { user } = await renderPage(Panel);
    expect(await screen.findByText("No open invitations")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Invite" }));
    const dialog = await screen.findByRole("dialog", { name: "Invite to vision" });
    await user.selectOptions(within(dialog).getByRole("combobox", { name: "Role" }), "Admin");
    const days = within(dialog).getByRole("spinbutton", { name: "Expires in days" });
    await user.clear(days);
    await user.type(days, "3");
    await user.click(within(dialog).getByRole("button", { name: "Invite" }));

    expect(await screen.findByText("http://allotment.test/invitation#secret")).toBeTruthy();
    expect(server.sent("POST /tenants/vision/invitations").map(({ body }) => body)).toEqual([
      { role: "admin", email: "", expires_in_days: 3 },
    ]);
    await user.click(screen.getByRole("button", { name: "Done" }));
    expect(await screen.findByRole("row", { name: /^Anyone with the link.*Admin/ })).toBeTruthy();
    expect(document.body.textContent).not.toContain("#secret");
  });

  it("are revoked, and leave the table", async () => {
    const known = [anInvitation({ email: "bo@example.org", mailed: true })];
    server.on("GET /tenants/vision/invitations", () => page(known));
    server.on("DELETE /tenants/vision/invitations/i1", () => {
      known.pop();
      return undefined;
    });
    const { user } = await renderPage(Panel);
    const row = await screen.findByRole("row", { name: /^bo@example\.org/ });
    expect(row.textContent).toContain("by ada, mailed");
    expect(within(row).getByText("expired")).toBeTruthy();
    await user.click(within(row).getByRole("button", { name: "Revoke the invitation bo@example.org" }));
    await waitFor(() => expect(screen.queryByRole("table")).toBeNull());
    expect(screen.getByText("No open invitations")).toBeTruthy();
  });
});
