import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { SecretsPanel } from "@/components/secrets/secrets-panel";
import { renderPage } from "@/testing/render";
import { page, Refusal, server } from "@/testing/server";

function aSecret(name: string) {
  return {
    name,
    scope: "tenant",
    created_at: "2026-01-01T00:00:00Z",
    changed_at: "2026-01-01T00:00:00Z",
    changed_by: "ada",
    last_used_at: null,
  };
}

const Panel = () => <SecretsPanel owner="vision" mayChange />;
const ReadOnly = () => <SecretsPanel owner="vision" mayChange={false} />;

describe("the secrets of a tenant", () => {
  it("are listed by name, with who set them and never with a value", async () => {
    server.on("GET /tenants/vision/secrets", page([aSecret("HF_TOKEN"), aSecret("S3_KEY")]));
    await renderPage(Panel);
    const row = await screen.findByRole("row", { name: /^HF_TOKEN/ });
    expect(within(row).getByText(/by ada$/)).toBeTruthy();
    expect(within(row).getByText("never")).toBeTruthy();
    expect(screen.getAllByRole("rowheader").map(({ textContent }) => textContent)).toEqual(["HF_TOKEN", "S3_KEY"]);
  });

  it("are set by a form, which sends the value once and shows the name", async () => {
    const known: ReturnType<typeof aSecret>[] = [];
    server.on("GET /tenants/vision/secrets", () => page(known));
    server.on("PUT /tenants/vision/secrets/HF_TOKEN", () => {
      known.push(aSecret("HF_TOKEN"));
      return known[0];
    });
    const { user } = await renderPage(Panel);
    expect(await screen.findByText("No secrets")).toBeTruthy();

    await user.click(screen.getByRole("button", { name: "Set a secret" }));
    const dialog = await screen.findByRole("dialog", { name: "Set a secret" });
    await user.type(within(dialog).getByRole("textbox", { name: "Name" }), "HF_TOKEN");
    await user.type(within(dialog).getByRole("textbox", { name: "Value" }), "hf_123");
    await user.click(within(dialog).getByRole("button", { name: "Set" }));

    expect(await screen.findByRole("rowheader", { name: "HF_TOKEN" })).toBeTruthy();
    expect(screen.queryByRole("dialog")).toBeNull();
    expect(server.sent("PUT /tenants/vision/secrets/HF_TOKEN").map(({ body }) => body)).toEqual([{ value: "hf_123" }]);
    expect(document.body.textContent).not.toContain("hf_123");
  });

  it("keep the form open when the server refuses, with the problem at its field", async () => {
    server.on("GET /tenants/vision/secrets", page([]));
    server.on(
      "PUT /tenants/vision/secrets/PATH",
      new Refusal(422, {
        code: "invalid",
        detail: "Not valid.",
        fields: [{ field: "name", problem: "is reserved" }],
      }),
    );
    const { user } = await renderPage(Panel);
    await user.click(await screen.findByRole("button", { name: "Set a secret" }));
    await user.type(await screen.findByRole("textbox", { name: "Name" }), "PATH");
    await user.type(screen.getByRole("textbox", { name: "Value" }), "x");
    await user.click(screen.getByRole("button", { name: "Set" }));
    expect(await screen.findByText("is reserved")).toBeTruthy();
    expect(screen.getByRole("textbox", { name: "Name" }).getAttribute("aria-invalid")).toBe("true");
  });

  it("are deleted only after a question", async () => {
    const known = [aSecret("HF_TOKEN")];
    server.on("GET /tenants/vision/secrets", () => page(known));
    server.on("DELETE /tenants/vision/secrets/HF_TOKEN", () => {
      known.pop();
      return undefined;
    });
    const { user } = await renderPage(Panel);
    await user.click(await screen.findByRole("button", { name: "Delete HF_TOKEN" }));
    const question = await screen.findByRole("alertdialog", { name: "Delete HF_TOKEN?" });
    expect(server.sent("DELETE /tenants/vision/secrets/HF_TOKEN")).toHaveLength(0);
    await user.click(within(question).getByRole("button", { name: "Delete" }));
    await waitFor(() => expect(screen.queryByRole("rowheader")).toBeNull());
    expect(server.sent("DELETE /tenants/vision/secrets/HF_TOKEN")).toHaveLength(1);
  });

  it("cannot be changed by who may only use them", async () => {
    server.on("GET /tenants/vision/secrets", page([aSecret("HF_TOKEN")]));
    await renderPage(ReadOnly);
    await screen.findByRole("rowheader", { name: "HF_TOKEN" });
    expect(screen.queryByRole("button", { name: "Set a secret" })).toBeNull();
    expect(screen.queryByRole("button", { name: "Delete HF_TOKEN" })).toBeNull();
  });
});
