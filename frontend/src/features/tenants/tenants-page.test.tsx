import { cleanup, screen } from "@testing-library/react";
import { expect, it } from "vitest";

import { TenantsPage } from "@/features/tenants/tenants-page";
import { renderPage } from "@/testing/render";
import { page, server } from "@/testing/server";

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
