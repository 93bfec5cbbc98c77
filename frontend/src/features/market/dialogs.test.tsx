import { screen, waitFor } from "@testing-library/react";
import { beforeEach, describe, expect, it, vi } from "vitest";

import { AllowanceDialog } from "@/features/market/credit-dialogs";
import { OfferDialog } from "@/features/market/offer-dialog";
import { RuleDialog } from "@/features/market/rule-dialog";
import { renderPage } from "@/testing/render";
import { aVirtualCluster } from "@/testing/samples";
import { page, Refusal, server } from "@/testing/server";

// A model's name may have a dot.
const MODEL = {
  name: "A100.80GB",
  memory_bytes: 2 ** 36,
  gpus: 8,
  gpus_free: 8,
  serving_gpus: 0,
  part_enforcement: { enforced: 0, cooperative: 0, placement_only: 0 },
  nodes: 2,
  price_per_hour: 2.5,
};

beforeEach(() => {
  const guaranteed = { "A100.80GB": 6 };
  server.on(
    "GET /virtual-clusters",
    page([
      aVirtualCluster({ id: 1, name: "vision-vc", guaranteed }),
      aVirtualCluster({ id: 2, name: "speech-vc", guaranteed }),
    ]),
  );
  server.on("GET /gpu-models", page([MODEL]));
  server.on("GET /cells", { specification: { types: {} }, gpu_models: [], chains: [], version: 1 });
  for (const name of ["vision-vc", "speech-vc"]) server.on(`GET /virtual-clusters/${name}/cells`, { cells: [] });
});

const done = vi.fn();
const Offer = () => <OfferDialog mine={["vision-vc", "speech-vc"]} onClose={done} />;
const Rule = () => <RuleDialog mine={["vision-vc", "speech-vc"]} onClose={done} />;
const account = { virtual_cluster: "vision-vc", balance: 10, allowance: { credits: 5, every_seconds: 86_400 } };
const Allowance = () => <AllowanceDialog account={account as never} onClose={done} />;

const lotField = () => screen.findByRole<HTMLInputElement>("spinbutton", { name: /^A100\.80GB/ });

describe("an offer", () => {
  it("is made of what was typed, after what the server objected to was mended", async () => {
    server.on(
      "POST /market/offers",
      new Refusal(400, {
        code: "invalid",
        detail: "No.",
        fields: [
          { field: "ends_at", problem: "is past", expected: "a time ahead" },
          { field: "lot.gpus.A100.80GB", problem: "are not idle" },
        ],
      }),
    );
    const { user } = await renderPage(Offer);
    const offer = screen.getByRole<HTMLButtonElement>("button", { name: "Offer" });
    expect(offer.disabled).toBe(true);
    await user.type(await lotField(), "2");
    const price = screen.getByRole("spinbutton", { name: "Credits per GPU and hour" });
    await user.clear(price);
    await user.type(price, "1.5");
    await user.click(offer);
    expect(await screen.findByText("is past; expected a time ahead")).toBeTruthy();
    expect(screen.getByText("are not idle")).toBeTruthy();
    expect((await lotField()).getAttribute("aria-invalid")).toBe("true");
    expect((await lotField()).value).toBe("2");

    server.on("POST /market/offers", {});
    await user.click(screen.getByRole("button", { name: "Offer" }));
    await waitFor(() => expect(done).toHaveBeenCalled());
    expect(server.sent("POST /market/offers").at(-1)?.body).toMatchObject({
      virtual_cluster: "vision-vc",
      lot: { gpus: { "A100.80GB": 2 }, cells: {} },
      price_per_gpu_hour: 1.5,
    });
  });

  it("keeps its price while something in return is thought of, and begins anew for another virtual cluster", async () => {
    const { user } = await renderPage(Offer);
    await user.type(await lotField(), "2");
    const priced = { name: "Credits per GPU and hour" };
    await user.clear(screen.getByRole("spinbutton", priced));
    await user.type(screen.getByRole("spinbutton", priced), "7");
    await user.click(screen.getByRole("radio", { name: "In return for" }));
    expect(screen.queryByRole("spinbutton", priced)).toBeNull();
    await user.click(screen.getByRole("radio", { name: "For credits" }));
    expect(screen.getByRole<HTMLInputElement>("spinbutton", priced).value).toBe("7");
    await user.selectOptions(screen.getByRole("combobox", { name: "Virtual cluster" }), "speech-vc");
    expect((await lotField()).value).toBe("");
  });
});

describe("a rule of the market", () => {
  it("borrows GPUs of the models that were chosen", async () => {
    server.on("POST /market/rules", {});
    const { user } = await renderPage(Rule);
    await user.click(screen.getByRole("radio", { name: "Borrow while jobs wait" }));
    await user.click(await screen.findByRole("checkbox", { name: "A100.80GB" }));
    await user.click(screen.getByRole("button", { name: "Add" }));
    await waitFor(() => expect(server.sent("POST /market/rules")).toHaveLength(1));
    expect(server.sent("POST /market/rules")[0]?.body).toEqual({
      virtual_cluster: "vision-vc",
      kind: "borrow",
      price_per_gpu_hour: 1,
      gpu_models: ["A100.80GB"],
      most_gpus: 4,
      waiting_seconds: 600,
    });
  });

  it("lends for as long as was typed, and says at the minutes what is wrong with the seconds", async () => {
    const wrong = { field: "idle_seconds", problem: "is too short", expected: "60 at least" };
    server.on("POST /market/rules", new Refusal(400, { code: "invalid", detail: "No.", fields: [wrong] }));
    const { user } = await renderPage(Rule);
    await user.type(await lotField(), "3");
    const idle = screen.getByRole<HTMLInputElement>("spinbutton", { name: "Idle for, in minutes" });
    await user.clear(idle);
    await user.type(idle, "0.5");
    await user.click(screen.getByRole("button", { name: "Add" }));
    expect(await screen.findByText("is too short; expected 60 at least")).toBeTruthy();
    expect(idle.getAttribute("aria-invalid")).toBe("true");
    expect(idle.value).toBe("0.5");
    expect(server.sent("POST /market/rules")[0]?.body).toEqual({
      virtual_cluster: "vision-vc",
      kind: "lend",
      price_per_gpu_hour: 1,
      lot: { gpus: { "A100.80GB": 3 }, cells: {} },
      idle_seconds: 30,
      lend_seconds: 7200,
    });
  });
});

describe("an allowance", () => {
  it("is set by the day, and removed", async () => {
    server.on("PUT /market/accounts/vision-vc/allowance", {});
    server.on("DELETE /market/accounts/vision-vc/allowance", undefined);
    const { user } = await renderPage(Allowance);
    const days = screen.getByRole<HTMLInputElement>("spinbutton", { name: "Every how many days" });
    expect(days.value).toBe("1");
    await user.clear(days);
    await user.type(days, "0.5");
    await user.click(screen.getByRole("button", { name: "Save" }));
    await waitFor(() => expect(server.sent("PUT /market/accounts/vision-vc/allowance")).toHaveLength(1));
    expect(server.sent("PUT /market/accounts/vision-vc/allowance")[0]?.body).toEqual({
      credits: 5,
      every_seconds: 43_200,
    });
    await user.click(screen.getByRole("button", { name: "Remove the allowance" }));
    await waitFor(() => expect(server.sent("DELETE /market/accounts/vision-vc/allowance")).toHaveLength(1));
  });
});
