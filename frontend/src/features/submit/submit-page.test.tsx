import { screen, waitFor, within } from "@testing-library/react";
import { beforeEach, describe, expect, it, vi } from "vitest";

import { SubmitPage } from "@/features/submit/submit-page";
import { renderPage } from "@/testing/render";
import { aJob } from "@/testing/samples";
import { page, server } from "@/testing/server";

// A text field in place of the editor, which measures what only a browser lays out.
vi.mock("@/components/yaml/editor", () => ({
  YamlEditor: ({ value, onChange }: { value: string; onChange: (text: string) => void }) => (
    <textarea aria-label="Specification as YAML" value={value} onChange={(event) => onChange(event.target.value)} />
  ),
}));

const member = { route: "/submit", as: { roles: { vision: "member" as const } } };

const V100 = {
  name: "V100",
  memory_bytes: 2 ** 34,
  gpus: 8,
  gpus_free: 8,
  serving_gpus: 0,
  part_enforcement: { enforced: 8, cooperative: 0, placement_only: 0 },
  nodes: 2,
  price_per_hour: 2.5,
};

interface Sent {
  name: string;
  tenant: string;
}

beforeEach(() => {
  server.on("GET /virtual-clusters", page([]));
  server.on("GET /gpu-models", page([V100]));
  server.on("GET /nodes", page([]));
  server.on("GET /secrets", page([]));
  server.on("GET /tenants/vision/secrets", page([]));
  server.on("GET /tenants/vision/templates", page([]));
  server.on("GET /policies", { policies: [], placers: [] });
  server.on("POST /jobs/check", {
    ok: true,
    fields: [],
    warnings: [],
    normalised: null,
    gpus: 1,
    message: "Would start at once.",
  });
});

describe("the submit page", () => {
  it("writes what is typed into the form into the YAML, and sends it once", async () => {
    server.on("POST /jobs", ({ body }) => aJob({ id: 12, name: (body as Sent).name }));
    const { user, address } = await renderPage(SubmitPage, member);
    const name = await screen.findByRole("textbox", { name: "Name" });
    await user.tripleClick(name);
    await user.keyboard("my-run");
    const yaml = await screen.findByRole<HTMLTextAreaElement>("textbox", { name: "Specification as YAML" });
    expect(yaml.value).toContain("name: my-run");
    // A comment of the template is still there.
    expect(yaml.value).toContain("# One process on one GPU.");

    expect(await screen.findByText("1 GPU. Would start at once.")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Submit" }));
    await waitFor(() => expect(address()).toBe("/jobs/12"));
    expect(server.sent("POST /jobs").map(({ body }) => body)).toMatchObject([{ name: "my-run", tenant: "vision" }]);
  });

  it("shows what the server objects to at its field and line, and does not submit", async () => {
    server.on("POST /jobs/check", {
      ok: false,
      fields: [{ field: "name", problem: "is taken", expected: "another name" }],
      warnings: [],
      normalised: null,
      gpus: 0,
      message: "",
    });
    await renderPage(SubmitPage, member);
    expect(await screen.findByText("is taken; expected another name")).toBeTruthy();
    expect(screen.getByRole("textbox", { name: "Name" }).getAttribute("aria-invalid")).toBe("true");
    expect(screen.getByText("Line 2: name: is taken; expected another name")).toBeTruthy();
    expect(screen.getByRole<HTMLButtonElement>("button", { name: "Submit" }).disabled).toBe(true);
  });

  it("says how a part of a GPU is held, and nothing of it for whole GPUs", async () => {
    const { user } = await renderPage(SubmitPage, member);
    const gpus = await screen.findByRole("spinbutton", { name: "GPUs per replica" });
    expect(screen.queryByText("Part: enforced")).toBeNull();
    await user.clear(gpus);
    await user.type(gpus, "0.3");
    expect(await screen.findByText("Part: enforced")).toBeTruthy();
  });

  it("asks before a template replaces what was written", async () => {
    const { user } = await renderPage(SubmitPage, member);
    const name = await screen.findByRole<HTMLInputElement>("textbox", { name: "Name" });
    await user.type(name, "-mine");
    await user.click(
      within(screen.getByRole("list", { name: "Templates" })).getByRole("button", { name: /gang of four/ }),
    );
    const question = await screen.findByRole("alertdialog", { name: "Take the template instead?" });
    expect(name.value).toBe("digits-single-mine");
    await user.click(within(question).getByRole("button", { name: "Replace" }));
    await waitFor(() => expect(name.value).toBe("digits-gang"));
  });

  it("tells viewers that they cannot submit", async () => {
    await renderPage(SubmitPage, { route: "/submit", as: { roles: { vision: "viewer" } } });
    expect(await screen.findByText("You cannot submit jobs")).toBeTruthy();
    expect(screen.queryByRole("button", { name: "Submit" })).toBeNull();
  });

  it("starts from a template of the tenant, and keeps what is written as another one", async () => {
    const row = { name: "resnet", summary: "Start here.", owner: "mia", changed_at: "2026-11-27T10:00:00Z" };
    server.on("GET /tenants/vision/templates", page([{ ...row, may_change: true }]));
    const spec = { name: "resnet", gpus: 2, command: "train" };
    server.on("GET /tenants/vision/templates/resnet", { ...row, may_change: true, spec });
    const { user } = await renderPage(SubmitPage, member);
    await user.click(await screen.findByRole("button", { name: "resnet" }));
    const yaml = await screen.findByRole<HTMLTextAreaElement>("textbox", { name: "Specification as YAML" });
    await waitFor(() => expect(yaml.value).toContain("name: resnet"));

    server.on("PUT /tenants/vision/templates/vgg", { ...row, name: "vgg", may_change: true, spec });
    await user.click(screen.getByRole("button", { name: "Save as a template" }));
    const dialog = await screen.findByRole("dialog");
    // Radix lets it take the pointer one drawing after it shows it.
    await waitFor(() => expect(dialog.style.pointerEvents).toBe("auto"));
    await user.tripleClick(screen.getByRole("textbox", { name: "Name of the template" }));
    await user.keyboard("vgg");
    await user.type(screen.getByRole("textbox", { name: "What it is for" }), "Larger.");
    await user.click(screen.getByRole("button", { name: "Save" }));
    expect(await screen.findByText("Saved the template vgg.")).toBeTruthy();
    const sent = server.sent("PUT /tenants/vision/templates/vgg").map(({ body }) => body);
    expect(sent).toMatchObject([{ summary: "Larger.", spec: { name: "resnet", gpus: 2 } }]);

    server.on("DELETE /tenants/vision/templates/resnet", () => undefined);
    await user.click(screen.getByRole("button", { name: "Delete resnet" }));
    await user.click(await screen.findByRole("button", { name: "Delete" }));
    await waitFor(() => expect(server.sent("DELETE /tenants/vision/templates/resnet")).toHaveLength(1));
  });
});
