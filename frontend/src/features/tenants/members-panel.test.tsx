import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { MembersPanel } from "@/features/tenants/members-panel";
import { renderPage } from "@/testing/render";
import { Edited, Refusal, server } from "@/testing/server";

const GIB = 2 ** 30;
const QUOTA = { gpus: 4, cpus: 16, memory_bytes: null };
const BUDGET = {
  amount: 100,
  unit: "gpu_hours",
  period: "month",
  action: "hold",
  starts_at: "2026-01-01T00:00:00Z",
  is_spent: false,
};

function page(...results: object[]) {
  return { results, next: null, previous: null };
}

const Members = () => <MembersPanel tenant="vision" />;

describe("the limits of members", () => {
  it("are shown, and set by an admin; what the server refuses stands at its field", async () => {
    server.on(
      "GET /tenants/vision/members",
      page({ username: "ann", email: "", role: "member" }, { username: "bob", email: "", role: "member" }),
    );
    server.on("GET /tenants/vision/user-limits", page({ username: "ann", quota: QUOTA, budget: BUDGET }));
    const wrong = { field: "gpus", problem: "9 is more than tenant vision may hold, 8", expected: "at most 8" };
    const refusal = { code: "invalid", detail: "No.", fields: [wrong] };
    server.on("GET /tenants/vision/members/ann/quota", new Edited('"q1"', QUOTA));
    server.on("GET /tenants/vision/members/ann/budget", new Edited('"b1"', { budget: BUDGET }));
    server.on("PUT /tenants/vision/members/ann/quota", new Refusal(400, refusal));
    const { user } = await renderPage(Members, { as: { isOperator: true } });
    expect(await screen.findByText("4 GPUs, 16 CPUs; 100 GPU-hours a month")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Edit the limits of ann" }));
    const dialog = within(await screen.findByRole("dialog"));
    const gpus = dialog.getByRole<HTMLInputElement>("spinbutton", { name: "GPUs at once" });
    const budget = dialog.getByRole<HTMLInputElement>("spinbutton", { name: "Budget" });
    expect([gpus.value, budget.value]).toEqual(["4", "100"]);
    await user.clear(gpus);
    await user.type(gpus, "9");
    await user.click(dialog.getByRole("button", { name: "Save" }));
    expect(await dialog.findByText(/more than tenant vision may hold/)).toBeTruthy();
    server.on("PUT /tenants/vision/members/ann/quota", {});
    server.on("DELETE /tenants/vision/members/ann/budget", () => undefined);
    await user.clear(gpus);
    await user.type(dialog.getByRole("spinbutton", { name: "Memory at once, GiB" }), "2");
    await user.clear(budget);
    await user.click(dialog.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
    expect(server.sent("PUT /tenants/vision/members/ann/quota").at(-1)?.body).toEqual({
      gpus: null,
      cpus: 16,
      memory_bytes: 2 * GIB,
    });
    expect(server.sent("PUT /tenants/vision/members/ann/quota").at(-1)?.ifMatch).toBe('"q1"');
    expect(server.sent("DELETE /tenants/vision/members/ann/budget").map(({ ifMatch }) => ifMatch)).toEqual(['"b1"']);
  });
});
