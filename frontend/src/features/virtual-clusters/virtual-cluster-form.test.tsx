import { screen, within } from "@testing-library/react";
import { beforeEach, describe, expect, it } from "vitest";

import { bodyOf, draftOf, VirtualClusterForm } from "@/features/virtual-clusters/virtual-cluster-form";
import { renderPage } from "@/testing/render";
import { aVirtualCluster } from "@/testing/samples";
import { Edited, page, Refusal, server } from "@/testing/server";

const BACKFILL = { name: "backfill", type: "bool", default: true, choices: [] };
const OBJECTIVE = { name: "objective", type: "str", default: "max_min", choices: ["makespan", "max_min"] };
const RELAX = { name: "relax_after_seconds", type: "float", default: 300, choices: [] };

const CLUSTER = aVirtualCluster({
  policy_plugin: { name: "fifo", parameters: { backfill: false } },
  placer_plugin: { name: "delay", parameters: { relax_after_seconds: 600 } },
  version: 7,
});

beforeEach(() => {
  server.on("GET /policies", {
    policies: [
      { name: "fifo", summary: "In order of submission.", parameters: [BACKFILL] },
      { name: "gavel", summary: "Shares of time.", parameters: [OBJECTIVE] },
    ],
    placers: [
      { name: "consolidate", summary: "Packs.", parameters: [] },
      { name: "delay", summary: "Waits for a better place.", parameters: [RELAX] },
    ],
  });
  server.on("GET /virtual-clusters/research", new Edited('"v7"', CLUSTER));
  server.on("GET /gpu-models", page([]));
  server.on("GET /tenants", page([]));
  server.on("GET /cells", { gpu_models: [] });
});

async function opened() {
  const { user } = await renderPage(() => <VirtualClusterForm cluster={CLUSTER} onClose={() => undefined} />);
  const policy = await screen.findByRole("group", { name: "Policy" });
  const placer = screen.getByRole("group", { name: "Placer" });
  await within(placer).findByLabelText("Relax after, seconds");
  return { user, policy, placer };
}

describe("the form of a virtual cluster", () => {
  it("says how many GPUs may be guaranteed, those of serving pools apart", async () => {
    const model = { name: "V100", memory_bytes: 2 ** 34, gpus: 8, gpus_free: 8, nodes: 2, price_per_hour: 1 };
    server.on("GET /gpu-models", page([{ ...model, serving_gpus: 4 }]));
    await opened();
    expect(
      await screen.findByText("of 4 in the cluster; 4 more from serving pools, which may recall them"),
    ).toBeTruthy();
  });

  it("chooses policy and placer by name and parameters", async () => {
    server.on("PUT /virtual-clusters/research", CLUSTER);
    const { user, policy, placer } = await opened();
    expect(within(policy).getByRole<HTMLInputElement>("checkbox", { name: "Backfill" }).checked).toBe(false);
    const relax = within(placer).getByLabelText<HTMLInputElement>("Relax after, seconds");
    expect(relax.value).toBe("600");
    await user.selectOptions(within(policy).getByLabelText("Policy"), "gavel");
    await user.selectOptions(within(policy).getByLabelText("Objective"), "makespan");
    await user.clear(relax);
    await user.type(relax, "60");
    await user.click(screen.getByRole("button", { name: "Save" }));

    expect(await screen.findByText("Saved virtual cluster research.")).toBeTruthy();
    const [sent] = server.sent("PUT /virtual-clusters/research");
    expect(sent?.ifMatch).toBe('"v7"');
    expect(sent?.body).toMatchObject({
      policy_plugin: { name: "gavel", parameters: { objective: "makespan" } },
      placer_plugin: { name: "delay", parameters: { relax_after_seconds: 60 } },
    });
  });

  it("lends what its jobs do not use, but for a margin that only then can be chosen", async () => {
    server.on("PUT /virtual-clusters/research", CLUSTER);
    const { user } = await opened();
    const margin = screen.getByLabelText<HTMLInputElement>("Safety margin");
    expect([margin.value, margin.disabled]).toEqual(["0.1", true]);
    await user.selectOptions(screen.getByLabelText("Lending of unused CPUs and memory"), "predicted");
    await user.clear(margin);
    await user.type(margin, "0.2");
    await user.click(screen.getByRole("button", { name: "Save" }));

    expect(await screen.findByText("Saved virtual cluster research.")).toBeTruthy();
    const [sent] = server.sent("PUT /virtual-clusters/research");
    expect(sent?.body).toMatchObject({ overcommit: "predicted", overcommit_margin: 0.2 });
  });

  it("says at the placer and at its parameter what is wrong with them", async () => {
    server.on(
      "PUT /virtual-clusters/research",
      new Refusal(400, {
        code: "invalid",
        detail: "Something is wrong.",
        fields: [
          { field: "policy_plugin.name", problem: "there is no 'fifo'", expected: "gavel" },
          { field: "placer_plugin.parameters.relax_after_seconds", problem: "is too long" },
        ],
      }),
    );
    const { user, policy, placer } = await opened();
    await user.click(screen.getByRole("button", { name: "Save" }));
    expect(await within(policy).findByText("there is no 'fifo'; expected gavel")).toBeTruthy();
    expect(within(placer).getByText("is too long")).toBeTruthy();
    expect(within(placer).getByLabelText("Relax after, seconds").getAttribute("aria-invalid")).toBe("true");
  });
});

const cluster = aVirtualCluster({
  title: "Research",
  policy_plugin: { name: "fifo", parameters: { backfill: false } },
  placer_plugin: { name: "delay", parameters: { relax_after_seconds: 600 } },
  guaranteed: { V100: 12 },
  own_guaranteed: { V100: 8 },
  sharing: "never",
  members: [{ tenant: "vision", weight: 2 }],
  version: 7,
});

describe("the form of a virtual cluster", () => {
  it("sends back what it was given", () => {
    expect(bodyOf(draftOf(cluster))).toEqual({
      title: "Research",
      policy_plugin: { name: "fifo", parameters: { backfill: false } },
      placer_plugin: { name: "delay", parameters: { relax_after_seconds: 600 } },
      default_time_limit_seconds: 3600,
      sharing: "never",
      min_run_seconds: 0,
      reclaim_min_run_seconds: 0,
      longest_wait_seconds: 0,
      overcommit: "never",
      overcommit_margin: 0.1,
      guaranteed: { V100: 8 },
      members: [{ tenant: "vision", weight: 2 }],
    });
  });

  it("leaves out models without a guarantee and tenants that are not members", () => {
    const draft = {
      ...draftOf(null),
      guaranteed: { V100: 0, P100: undefined, K80: 2 },
      members: { a: 1, b: undefined },
    };
    expect(bodyOf(draft)).toMatchObject({
      guaranteed: { K80: 2 },
      members: [{ tenant: "a", weight: 1 }],
    });
  });

  it("leaves to the cells what is guaranteed of models that they divide", () => {
    const draft = { ...draftOf(cluster), guaranteed: { V100: 8, K80: 2 } };
    expect(bodyOf(draft, ["V100"])).toMatchObject({ guaranteed: { K80: 2 } });
  });
});
