import { screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { QuotaPanel } from "@/features/tenants/quota-panel";
import { renderPage } from "@/testing/render";
import { Edited, Refusal, server } from "@/testing/server";

const GIB = 2 ** 30;
const QUOTA = { limits: { "*": 16 }, cpus: 64, memory_bytes: 512 * GIB };
const HELD = { gpus: { V100: 3, P100: 0.5 }, cpus: 12.5, memory_bytes: 96 * GIB };

const Panel = () => <QuotaPanel tenant="vision" />;

describe("a tenant's quota", () => {
  it("says how much of the GPUs, CPUs and memory is held", async () => {
    server.on("GET /tenants/vision/quota", QUOTA);
    server.on("GET /tenants/vision/held", HELD);
    await renderPage(Panel);
    for (const words of ["3.5 of 16", "12.5 of 64", "96 GiB of 512 GiB"]) {
      expect(await screen.findByText(words)).toBeTruthy();
    }
    expect(screen.queryByRole("button", { name: "Edit the quota" })).toBeNull();
  });

  it("is changed whole, an empty field meaning no limit, and stays open while it is refused", async () => {
    server.on("GET /tenants/vision/quota", new Edited('"q1"', QUOTA));
    server.on("GET /tenants/vision/held", HELD);
    server.on("GET /gpu-models", { results: [], next: null });
    const detail = "cpus: is above the highest that is possible.";
    server.on("PUT /tenants/vision/quota", new Refusal(400, { code: "invalid", detail, fields: [] }));
    const { user } = await renderPage(Panel, { as: { isOperator: true } });
    await user.click(await screen.findByRole("button", { name: "Edit the quota" }));
    const cpus = screen.getByRole<HTMLInputElement>("spinbutton", { name: /CPUs/ });
    const memory = screen.getByRole<HTMLInputElement>("spinbutton", { name: /Memory in GiB/ });
    expect([cpus.value, memory.value]).toEqual(["64", "512"]);
    await user.clear(cpus);
    await user.clear(memory);
    await user.type(memory, "1.5");
    await user.click(screen.getByRole("button", { name: "Save" }));
    expect(await screen.findByText(detail)).toBeTruthy();
    const saved = { limits: { "*": 16 }, cpus: null, memory_bytes: 1.5 * GIB };
    server.on("PUT /tenants/vision/quota", saved);
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(screen.queryByRole("button", { name: "Save" })).toBeNull());
    expect(server.sent("PUT /tenants/vision/quota").at(-1)).toMatchObject({ ifMatch: '"q1"', body: saved });
    expect(screen.queryByText("CPUs")).toBeNull();
  });
});
