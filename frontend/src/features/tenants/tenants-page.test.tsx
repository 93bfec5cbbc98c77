import { cleanup, screen, within } from "@testing-library/react";
import { beforeEach, expect, it } from "vitest";

import { TenantsPage } from "@/features/tenants/tenants-page";
import { renderPage } from "@/testing/render";
import { page, server } from "@/testing/server";

const USED = { jobs: 3, guaranteed_gpu_hours: 0, opportunistic_gpu_hours: 0, wasted_gpu_hours: 0, currency: null };

beforeEach(() => {
  server.on("GET /budgets", page([]));
  server.on("GET /gpu-models", page([]));
  server.on("GET /usage", { since: "2026-11-01T00:00:00Z", rows: [] });
});

it("shows what each tenant used this month, and how much of its budget that is", async () => {
  const names = ["idle", "late", "nlp", "spent", "vision"];
  server.on("GET /tenants", page(names.map((name) => ({ name, title: "", role: "member", members: 3 }))));
  const rows = [
    { ...USED, tenant: "vision", gpu_hours: 250, cost: 700 },
    { ...USED, tenant: "nlp", gpu_hours: 90, cost: 30 },
    { ...USED, tenant: "late", gpu_hours: 40, cost: 40 },
    { ...USED, tenant: "spent", gpu_hours: 40, cost: 40 },
  ];
  server.on("GET /usage", { since: "2026-11-01T00:00:00Z", rows });
  const terms = { unit: "gpu_hours", period: "month", is_spent: false, starts_at: "2026-11-01T00:00:00Z" };
  const budgets = [
    { ...terms, tenant: "vision", amount: 1000 },
    { ...terms, tenant: "nlp", amount: 60, unit: "cost" },
    // What was used before it began does not count.
    { ...terms, tenant: "late", amount: 50, starts_at: "2026-11-20T00:00:00Z" },
    { ...terms, tenant: "spent", amount: 40, period: "week", is_spent: true },
  ];
  server.on("GET /budgets", page(budgets));
  await renderPage(TenantsPage, { route: "/tenants", at: "/tenants" });
  await screen.findByText(/25 % used/);
  const cells = (name: string) =>
    within(screen.getByRole("row", { name: new RegExp(name) }))
      .getAllByRole("cell")
      .slice(-2)
      .map((cell) => cell.textContent);
  expect(names.map(cells)).toEqual([
    ["0", "none"],
    ["40", "50 GPU-hours a month"],
    ["90", "60 in cost a month, 50 % used"],
    ["40", "40 GPU-hours a week, used up"],
    ["250", "1,000 GPU-hours a month, 25 % used"],
  ]);
});

it("calls the platform's operator so, and everybody else by the role in the tenant", async () => {
  // The server counts an operator as admin of each tenant.
  server.on("GET /tenants", page([{ name: "vision", title: "", role: "admin", members: 3 }]));
  server.on("GET /webhooks", page([]));
  await renderPage(TenantsPage, { route: "/tenants", at: "/tenants", as: { isOperator: true } });
  expect((await screen.findByRole("row", { name: /vision/ })).textContent).toContain("Operator");
  cleanup();
  await renderPage(TenantsPage, { route: "/tenants", at: "/tenants", as: { roles: { vision: "admin" } } });
  expect((await screen.findByRole("row", { name: /vision/ })).textContent).toContain("Admin");
});
