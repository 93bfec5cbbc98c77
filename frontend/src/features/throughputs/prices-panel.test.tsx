import { screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { PricesPanel } from "@/features/throughputs/prices-panel";
import { renderPage } from "@/testing/render";
import { Refusal, server } from "@/testing/server";

const models = (currency: string | null) => ({
  results: [{ name: "V100", gpus: 8, memory_bytes: 16 * 2 ** 30, nodes: 2, price_per_hour: 2.5, currency }],
});

describe("the prices of GPUs", () => {
  it("are in the site's currency, which an operator sets beside them", async () => {
    server.on("GET /gpu-models", models(null));
    const wrong = { field: "currency", problem: "is no code of ISO 4217" };
    server.on("PATCH /cluster/settings", new Refusal(400, { code: "invalid", detail: "No.", fields: [wrong] }));
    const { user } = await renderPage(PricesPanel, { as: { isOperator: true } });
    expect(await screen.findByText("GPU prices, in cost units per GPU-hour")).toBeTruthy();
    const save = screen.getByRole<HTMLButtonElement>("button", { name: "Save" });
    expect(save.disabled).toBe(true);
    const currency = screen.getByRole("textbox", { name: "Currency" });
    await user.type(currency, "euro");
    await user.click(save);
    expect(await screen.findByText("is no code of ISO 4217")).toBeTruthy();

    server.on("PATCH /cluster/settings", () => {
      server.on("GET /gpu-models", models("EUR"));
      return {};
    });
    await user.clear(currency);
    await user.type(currency, "eur");
    await user.click(save);
    expect(await screen.findByText("GPU prices, in EUR per GPU-hour")).toBeTruthy();
    expect(server.sent("PATCH /cluster/settings").at(-1)?.body).toEqual({ currency: "EUR" });
    await waitFor(() => expect(save.disabled).toBe(true));
  });

  it("are only read by others", async () => {
    server.on("GET /gpu-models", models("EUR"));
    await renderPage(PricesPanel, { as: { isOperator: false } });
    expect(await screen.findByText("GPU prices, in EUR per GPU-hour")).toBeTruthy();
    expect(screen.queryByRole("textbox", { name: "Currency" })).toBeNull();
  });
});
