import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { AuditPage } from "@/features/audit/audit-page";
import { renderPage, rowsOf } from "@/testing/render";
import { page, Refusal, server } from "@/testing/server";

function anEntry(given: object) {
  return {
    id: 7,
    at: "2026-01-01T00:00:00Z",
    actor: "ada",
    actor_kind: "user",
    token: "",
    action: "quota.changed",
    object: "tenant",
    object_id: "vision",
    tenant: "vision",
    outcome: "done",
    sentence: "ada changed the quota of vision",
    address: "10.0.0.7",
    request: "PUT /api/v1/tenants/vision/quota",
    before: { gpus: 4 },
    after: { gpus: 8 },
    ...given,
  };
}

const COMPLETE = { is_complete: true, receivers: [] };
const operator = { route: "/audit", as: { isOperator: true } };

describe("the audit log", () => {
  it("tells each entry as a sentence, which opens to what changed", async () => {
    server.on("GET /audit", page([anEntry({})]));
    server.on("GET /audit/status", COMPLETE);
    const { user } = await renderPage(AuditPage, operator);
    const list = await screen.findByRole("list", { name: "Audit log" });
    expect(within(list).getByText("ada changed the quota of vision")).toBeTruthy();
    expect(within(list).getByText("from 10.0.0.7")).toBeTruthy();

    const more = within(list).getByRole("button", { name: "Details of entry 7" });
    expect(more.getAttribute("aria-expanded")).toBe("false");
    await user.click(more);
    expect(more.getAttribute("aria-expanded")).toBe("true");
    expect(within(list).getByText("PUT /api/v1/tenants/vision/quota")).toBeTruthy();
    expect(rowsOf(within(list).getByRole("table", { name: "Changes of entry 7" }))).toEqual([["gpus", "4", "8"]]);
  });

  it("is filtered by the server, and keeps the filter in its address", async () => {
    server.on("GET /audit", ({ query }) => page(query.outcome === "refused" ? [] : [anEntry({})]));
    server.on("GET /audit/status", COMPLETE);
    const { user, address } = await renderPage(AuditPage, operator);
    await screen.findByRole("list", { name: "Audit log" });
    await user.selectOptions(screen.getByRole("combobox", { name: "Outcome" }), "Refused");
    expect(await screen.findByText("No entry matches")).toBeTruthy();
    expect(address()).toBe("/audit?outcome=refused");

    await user.click(screen.getByRole("button", { name: "Clear the filters" }));
    expect(await screen.findByRole("list", { name: "Audit log" })).toBeTruthy();
    expect(address()).toBe("/audit");
  });

  it("goes on with older entries from the server's cursor", async () => {
    server.on("GET /audit", ({ query }) =>
      query.cursor === "c2"
        ? page([anEntry({ id: 6, sentence: "bo read the log of job 3" })])
        : page([anEntry({})], "http://allotment.test/api/v1/audit?cursor=c2"),
    );
    server.on("GET /audit/status", COMPLETE);
    const { user } = await renderPage(AuditPage, operator);
    await user.click(await screen.findByRole("button", { name: "Show older entries" }));
    expect(await screen.findByText("bo read the log of job 3")).toBeTruthy();
    expect(screen.getByText("ada changed the quota of vision")).toBeTruthy();
    await waitFor(() => expect(screen.queryByRole("button", { name: "Show older entries" })).toBeNull());
  });

  it("warns operators where it is not forwarded, and where it is not complete", async () => {
    server.on("GET /audit", page([]));
    server.on("GET /audit/status", {
      is_complete: false,
      receivers: [
        {
          address: "tls://siem:6514",
          sent_at: null,
          behind: 12,
          problem: "refused",
          failing_since: "2026-01-01T00:00:00Z",
          failures: 3,
        },
      ],
    });
    await renderPage(AuditPage, operator);
    const row = await screen.findByRole("row", { name: /^tls:\/\/siem:6514/ });
    expect(within(row).getByText("never")).toBeTruthy();
    expect(within(row).getByText("12")).toBeTruthy();
    expect(within(row).getByText(/^refused \(since .*, 3 tries\)$/)).toBeTruthy();
    expect(screen.getByText(/does not record all changes/)).toBeTruthy();
  });

  it("is of their own tenants for admins, and says why it is refused to others", async () => {
    server.on("GET /audit", new Refusal(403, { code: "forbidden", detail: "Only admins read the audit log." }));
    await renderPage(AuditPage, { route: "/audit", as: { roles: { vision: "admin", speech: "viewer" } } });
    expect((await screen.findByRole("alert")).textContent).toContain("Only admins read the audit log.");
    expect(screen.queryByText("Nothing yet")).toBeNull();
    expect(server.sent("GET /audit/status")).toHaveLength(0);
    const tenants = within(screen.getByRole("combobox", { name: "Tenant" })).getAllByRole("option");
    expect(tenants.map(({ textContent }) => textContent)).toContain("vision");
    expect(tenants.map(({ textContent }) => textContent)).not.toContain("speech");
  });
});
