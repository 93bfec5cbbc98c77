import { screen } from "@testing-library/react";
import { beforeEach, describe, expect, it } from "vitest";

import { daysOf, periodOf } from "@/features/usage/choices";
import { UsagePage } from "@/features/usage/usage-page";
import { renderPage, rowsOf } from "@/testing/render";
import { page, server } from "@/testing/server";

const AT = "/usage";
const ROW = { jobs: 2, gpu_hours: 30, guaranteed_gpu_hours: 24, opportunistic_gpu_hours: 6, wasted_gpu_hours: 3 };
const USED = { ...ROW, cost: 75, currency: "EUR", entitled_gpu_hours: null };
const PERIOD = { since: "2026-11-01T00:00:00Z", until: "2026-11-20T12:00:00Z" };

beforeEach(() => {
  server.on("GET /tenants", page([{ name: "vision" }, { name: "speech" }]));
  server.on("GET /virtual-clusters", page([]));
  server.on("GET /gpu-models", page([{ name: "V100", currency: "EUR" }]));
});

describe("the page of usage", () => {
  it("shows what each tenant used, and all together", async () => {
    const rows = [{ ...USED, tenant: "vision" }];
    server.on("GET /usage", { ...PERIOD, by: ["tenant"], rows, total: { ...USED, gpu_hours: 40 } });
    await renderPage(UsagePage, { route: AT });
    const [row] = rowsOf(await screen.findByRole("table", { name: "Usage" }));
    expect(row).toEqual(["vision", "2", "30 of 40", "24", "6", "3", "75"]);
    expect(screen.getByRole("columnheader", { name: "Cost, EUR" })).toBeTruthy();
    expect(screen.getByText("24 (60 %)")).toBeTruthy();
    expect(screen.getByText("75 EUR")).toBeTruthy();
  });

  it("asks for other groupings, days and one tenant, and offers the same as files", async () => {
    const asked: Record<string, string>[] = [];
    server.on("GET /usage", ({ query }: { query: Record<string, string> }) => {
      asked.push(query);
      const by = (query.by ?? "tenant").split(",");
      const key = { tenant: "vision", user: "vera", gpu_model: "V100" };
      return { ...PERIOD, by, rows: [{ ...USED, ...key }], total: USED };
    });
    const { user, address } = await renderPage(UsagePage, {
      route: AT,
      at: "/usage?since=2026-10-01&until=2026-10-31",
      as: { roles: { vision: "admin" } },
    });
    await screen.findByRole("table", { name: "Usage" });
    await user.selectOptions(screen.getByRole("combobox", { name: "Group by" }), "user");
    await user.selectOptions(screen.getByRole("combobox", { name: "Then by" }), "gpu_model");
    await user.selectOptions(await screen.findByRole("combobox", { name: "Tenant" }), "vision");
    await screen.findByRole("columnheader", { name: "GPU model" });
    expect(asked.at(-1)).toMatchObject({
      by: "user,gpu_model",
      tenant: "vision",
      since: new Date("2026-10-01T00:00").toISOString(),
      until: new Date("2026-11-01T00:00").toISOString(),
    });
    expect(screen.getByRole("link", { name: "Parquet" }).getAttribute("href")).toMatch(
      /^\/api\/v1\/usage\/export\?by=user%2Cgpu_model&tenant=vision&since=.*&format=parquet$/,
    );
    expect(address()).toContain("since=2026-10-01");
  });

  it("sets what a guarantee amounts to beside its use", async () => {
    const rows = [{ ...USED, virtual_cluster: "vision-vc", entitled_gpu_hours: 96 }];
    server.on("GET /usage", { ...PERIOD, by: ["virtual_cluster"], rows, total: USED });
    await renderPage(UsagePage, { route: AT, at: "/usage?by=virtual_cluster" });
    const [row] = rowsOf(await screen.findByRole("table", { name: "Usage" }));
    expect(row?.[3]).toBe("24 of 96");
  });

  it("offers users as groups only to admins, and says when nothing was used", async () => {
    server.on("GET /usage", { ...PERIOD, by: ["tenant"], rows: [], total: { ...USED, gpu_hours: 0 } });
    await renderPage(UsagePage, { route: AT, as: { roles: { vision: "member" } } });
    expect(await screen.findByText("No GPU-hours")).toBeTruthy();
    expect(screen.queryByRole("option", { name: "By user" })).toBeNull();
    expect(screen.queryByRole("link", { name: "CSV" })).toBeNull();
  });
});

describe("amounts of usage", () => {
  it("read as nothing only where they are nothing", async () => {
    const used = { ...USED, gpu_hours: 0.5, wasted_gpu_hours: 0.005, opportunistic_gpu_hours: 0.002 };
    const rows = [{ ...used, tenant: "vision" }];
    server.on("GET /usage", { ...PERIOD, by: ["tenant"], rows, total: { ...used, guaranteed_gpu_hours: 0 } });
    await renderPage(UsagePage, { route: AT });
    const [row] = rowsOf(await screen.findByRole("table", { name: "Usage" }));
    expect(row?.slice(4, 6)).toEqual(["< 0.1", "< 0.1"]);
    const valueOf = (term: string) => screen.getByText(term, { selector: "dt" }).nextSibling?.textContent;
    expect(valueOf("Wasted")).toBe("< 0.1 (1 %)");
    expect(valueOf("On idle GPUs")).toBe("< 0.1 (< 1 %)");
    expect(valueOf("On guaranteed GPUs")).toBe("0 (0 %)");
  });
});

describe("periods", () => {
  const now = new Date(2026, 0, 15, 12);

  it("are days by the viewer's clock", () => {
    expect(daysOf("month", now)).toEqual({ since: undefined, until: undefined });
    expect(daysOf("last-month", now)).toEqual({ since: "2025-12-01", until: "2025-12-31" });
    expect(daysOf("30-days", now)).toEqual({ since: "2025-12-17", until: undefined });
  });

  it("are found again from their days, and days of one's own are none of them", () => {
    for (const period of ["month", "last-month", "30-days"] as const)
      expect(periodOf(daysOf(period, now), now)).toBe(period);
    expect(periodOf({ since: "2025-12-02" }, now)).toBe("");
  });
});
