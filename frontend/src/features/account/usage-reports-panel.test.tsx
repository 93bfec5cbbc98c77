import { screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { UsageReportsPanel } from "@/features/account/usage-reports-panel";
import { renderPage } from "@/testing/render";
import { page, server } from "@/testing/server";

describe("usage reports by mail", () => {
  it("are chosen for each tenant that one administers", async () => {
    server.on(
      "GET /notifications/reports",
      page([{ tenant: "red", period: "week", reported_until: "2026-01-05T00:00:00Z" }]),
    );
    server.on("POST /notifications/reports", { tenant: "red", period: null });
    const { user } = await renderPage(UsageReportsPanel, { as: { roles: { red: "admin", blue: "member" } } });
    const select = await screen.findByLabelText<HTMLSelectElement>("Use of red");
    expect(select.value).toBe("week");
    expect(screen.queryByLabelText("Use of blue")).toBeNull();
    expect(screen.queryByLabelText("Use of the cluster")).toBeNull();
    await user.selectOptions(select, "No report");
    await waitFor(() =>
      expect(server.sent("POST /notifications/reports").map(({ body }) => body)).toEqual([
        { tenant: "red", period: null },
      ]),
    );
  });

  it("of the cluster are for operators, and members have none to choose", async () => {
    server.on("GET /notifications/reports", page([]));
    await renderPage(UsageReportsPanel, { as: { isOperator: true } });
    expect((await screen.findByLabelText<HTMLSelectElement>("Use of the cluster")).value).toBe("");
    server.reset();
    await renderPage(UsageReportsPanel, { as: { roles: { blue: "member" } } });
    expect(server.asked).toEqual([]);
  });
});
