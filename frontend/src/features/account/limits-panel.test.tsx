import { screen } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { LimitsPanel } from "@/features/account/limits-panel";
import { renderPage } from "@/testing/render";
import { server } from "@/testing/server";

const QUOTA = { gpus: 4, cpus: 16, memory_bytes: null };
const BUDGET = {
  amount: 100,
  unit: "gpu_hours",
  period: "month",
  action: "hold",
  starts_at: "2026-01-01T00:00:00Z",
  is_spent: true,
};

const Limits = () => <LimitsPanel tenant="vision" />;

describe("one's own limits", () => {
  it("are shown with what is held and used", async () => {
    const row = { username: "vera", quota: QUOTA, budget: BUDGET };
    server.on("GET /tenants/vision/user-limits", { results: [row], next: null });
    const held = { gpus: { V100: 1, K80: 1.5 }, cpus: 3, memory_bytes: 0 };
    server.on("GET /tenants/vision/members/vera/quota", { ...QUOTA, held });
    server.on("GET /tenants/vision/members/vera/budget", { budget: BUDGET, used: 100.4, is_holding: true });
    await renderPage(Limits, { as: { username: "vera" } });
    for (const words of ["2.5 of 4", "3 of 16", "100.4 of 100 GPU-hours", "used up: no further job of yours starts"]) {
      expect(await screen.findByText(words)).toBeTruthy();
    }
    expect(screen.queryByText("Memory")).toBeNull();
  });

  it("are not shown where there are none, nor those of others", async () => {
    const row = { username: "ann", quota: QUOTA, budget: null };
    server.on("GET /tenants/vision/user-limits", { results: [row], next: null });
    await renderPage(Limits, { as: { username: "vera", roles: { vision: "admin" } } });
    expect(screen.queryByText("Your limits in vision")).toBeNull();
  });
});
