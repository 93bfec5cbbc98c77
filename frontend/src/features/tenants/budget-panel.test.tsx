import { screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { BudgetPanel } from "@/features/tenants/budget-panel";
import { renderPage } from "@/testing/render";
import { Edited, Refusal, server } from "@/testing/server";

const BUDGET = { amount: 500, unit: "cost", period: "week", action: "hold", starts_at: "2026-01-01T00:00:00Z" };

function aState(budget: object | null) {
  return {
    budget,
    used: 0,
    used_last_day: 0,
    counts_from: "2026-01-01T00:00:00Z",
    ends_at: null,
    expected: null,
    reached_at: null,
  };
}

const Panel = () => <BudgetPanel tenant="vision" />;

describe("a tenant's budget", () => {
  it("is changed from what it is, and stays open with what was typed when it is refused", async () => {
    server.on("GET /tenants/vision/budget", aState(BUDGET));
    const wrong = { field: "amount", problem: "is too large" };
    server.on("PUT /tenants/vision/budget", new Refusal(400, { code: "invalid", detail: "No.", fields: [wrong] }));
    const { user } = await renderPage(Panel, { as: { isOperator: true } });
    await user.click(await screen.findByRole("button", { name: "Edit the budget" }));
    const amount = await screen.findByRole<HTMLInputElement>("spinbutton", { name: "Amount" });
    expect(amount.value).toBe("500");
    await user.clear(amount);
    await user.type(amount, "999999");
    await user.selectOptions(screen.getByRole("combobox", { name: "Period" }), "Each month");
    await user.click(screen.getByRole("button", { name: "Save" }));
    expect(await screen.findByText("is too large")).toBeTruthy();
    expect(screen.getByRole<HTMLSelectElement>("combobox", { name: "Period" }).value).toBe("month");
    await user.clear(amount);
    await user.type(amount, "750");
    server.on("PUT /tenants/vision/budget", {});
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(server.sent("PUT /tenants/vision/budget").at(-1)?.body).toEqual({
      amount: 750,
      unit: "cost",
      period: "month",
      action: "hold",
    });
  });

  it("is removed by a button that is there only where there is one", async () => {
    server.on("GET /tenants/vision/budget", new Edited('"b1"', aState(BUDGET)));
    server.on("DELETE /tenants/vision/budget", ({ ifMatch }) => {
      expect(ifMatch).toBe('"b1"');
      server.on("GET /tenants/vision/budget", aState(null));
      return undefined;
    });
    const { user } = await renderPage(Panel, { as: { isOperator: true } });
    await user.click(await screen.findByRole("button", { name: "Edit the budget" }));
    const remove = await screen.findByRole<HTMLButtonElement>("button", { name: "Remove the budget" });
    await waitFor(() => expect(remove.disabled).toBe(false));
    await user.click(remove);
    expect(await screen.findByText("no limit")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Edit the budget" }));
    expect(screen.queryByRole("button", { name: "Remove the budget" })).toBeNull();
    expect((await screen.findByRole<HTMLInputElement>("spinbutton", { name: "Amount" })).value).toBe("1000");
  });
});
