import { screen, within } from "@testing-library/react";
import { beforeEach, describe, expect, it } from "vitest";

import { SpareSettings } from "@/features/virtual-clusters/spare-settings";
import { renderPage } from "@/testing/render";
import { Edited, Refusal, server } from "@/testing/server";

const SETTINGS = {
  spare_policy_plugin: { name: "tiresias", parameters: { thresholds: [60, 600] } },
  spare_placer_plugin: { name: "delay", parameters: { relax_after_seconds: 60 } },
  preemptions_per_round: null,
  backoff_seconds: 30,
  most_backoff_seconds: 600,
  overrun: null,
};
const THRESHOLDS = { name: "thresholds", type: "list", default: [3250, 7200], choices: [] };
const QUANTUM = { name: "quantum_seconds", type: "float", default: 0, choices: [] };
const RELAX = { name: "relax_after_seconds", type: "float", default: 300, choices: [] };

beforeEach(() => {
  server.on("GET /cluster/settings", new Edited('"s1"', SETTINGS));
  server.on("GET /policies", {
    policies: [
      { name: "las", summary: "Who had least goes first.", parameters: [QUANTUM] },
      { name: "tiresias", summary: "Queues of service.", parameters: [THRESHOLDS] },
    ],
    placers: [{ name: "delay", summary: "Waits for a better place.", parameters: [RELAX] }],
  });
});

async function asOperator() {
  const { user } = await renderPage(SpareSettings, { as: { isOperator: true } });
  const policy = await screen.findByRole("group", { name: "Policy of opportunistic jobs" });
  const placer = screen.getByRole("group", { name: "Placer of opportunistic jobs" });
  await within(placer).findByLabelText("Relax after, seconds");
  return { user, policy, placer };
}

describe("how spare GPUs are handed out", () => {
  it("is told in words to those who do not decide it", async () => {
    await renderPage(SpareSettings);
    expect(await screen.findByText("tiresias: thresholds 60, 600")).toBeTruthy();
    expect(screen.getByText("delay: relax after 1 min")).toBeTruthy();
  });

  it("is changed by name and parameters, and what was not touched is not sent", async () => {
    server.on("PATCH /cluster/settings", ({ body }) => ({ ...SETTINGS, ...(body as object) }));
    const { user, policy, placer } = await asOperator();
    expect(within(policy).getByLabelText<HTMLInputElement>("Thresholds").value).toBe("60, 600");
    expect(within(placer).getByLabelText<HTMLInputElement>("Relax after, seconds").value).toBe("60");
    await user.selectOptions(within(policy).getByLabelText("Policy of opportunistic jobs"), "las");
    await user.type(within(policy).getByLabelText("Quantum, seconds"), "{Backspace}90");
    await user.click(screen.getByRole("button", { name: "Save" }));

    expect(await screen.findByText(/^Saved the settings of spare GPUs/)).toBeTruthy();
    expect(server.sent("PATCH /cluster/settings").map(({ ifMatch, body }) => [ifMatch, body])).toEqual([
      ['"s1"', { spare_policy_plugin: { name: "las", parameters: { quantum_seconds: 90 } } }],
    ]);
  });

  it("is no change when a parameter is as it was again", async () => {
    const { user, placer } = await asOperator();
    const relax = within(placer).getByLabelText("Relax after, seconds");
    await user.type(relax, "0");
    const save = screen.getByRole<HTMLButtonElement>("button", { name: "Save" });
    expect(save.disabled).toBe(false);
    await user.type(relax, "{Backspace}");
    expect(save.disabled).toBe(true);
  });

  it("says at a parameter what is wrong with it", async () => {
    const field = "spare_policy_plugin.parameters.thresholds";
    const wrong = { field, problem: "'soon' is no thresholds of tiresias", expected: "a list, each entry a number" };
    server.on(
      "PATCH /cluster/settings",
      new Refusal(400, { code: "invalid", detail: "thresholds: no.", fields: [wrong] }),
    );
    const { user, policy } = await asOperator();
    const thresholds = within(policy).getByLabelText<HTMLInputElement>("Thresholds");
    await user.clear(thresholds);
    await user.type(thresholds, "soon");
    await user.click(screen.getByRole("button", { name: "Save" }));
    expect(await screen.findByText(`${wrong.problem}; expected a list, each entry a number`)).toBeTruthy();
    expect(thresholds.getAttribute("aria-invalid")).toBe("true");
    expect(thresholds.value).toBe("soon");
  });
});
