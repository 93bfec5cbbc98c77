import { screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { AddWebhookDialog, EditWebhookDialog } from "@/components/notices/webhook-dialogs";
import { renderPage } from "@/testing/render";
import { Refusal, server } from "@/testing/server";

const WEBHOOK = {
  id: 3,
  url: "https://chat.example.org/hook",
  title: "chat",
  topics: ["job.failed" as const, "job.stuck" as const],
  tenant: "vision",
  state: "active" as const,
  problem: "",
  failures: 0,
  held_until: null,
  old_secret_ends_at: null,
  created_at: "2026-01-01T00:00:00Z",
  created_by: "ada",
};

const Add = () => <AddWebhookDialog tenant="vision" onClose={() => undefined} />;
const Edit = () => <EditWebhookDialog webhook={WEBHOOK as never} onClose={() => undefined} />;

describe("a webhook", () => {
  it("is made of what was typed, once its address is right, and its secret is shown", async () => {
    const wrong = { field: "url", problem: "is a private address", expected: "a public one" };
    server.on("POST /webhooks", new Refusal(400, { code: "invalid", detail: "No.", fields: [wrong] }));
    const { user } = await renderPage(Add);
    // Nodes are the cluster's.
    expect(screen.queryByRole("checkbox", { name: "A node stopped reporting" })).toBeNull();
    const url = screen.getByRole<HTMLInputElement>("textbox", { name: "URL" });
    await user.type(url, "https://10.0.0.1/hook");
    await user.type(screen.getByRole("textbox", { name: "Title" }), " chat ");
    await user.click(screen.getByRole("checkbox", { name: "A job runs" }));
    await user.click(screen.getByRole("button", { name: "Create" }));
    expect(await screen.findByText("is a private address; expected a public one")).toBeTruthy();
    expect(url.value).toBe("https://10.0.0.1/hook");

    server.on("POST /webhooks", { ...WEBHOOK, secret: "whsec_1" });
    await user.clear(url);
    await user.type(url, "https://chat.example.org/hook");
    await user.click(screen.getByRole("button", { name: "Create" }));
    expect(await screen.findByText("whsec_1")).toBeTruthy();
    const { body } = server.sent("POST /webhooks").at(-1) ?? {};
    expect(body).toMatchObject({ url: "https://chat.example.org/hook", title: "chat", tenant: "vision" });
    expect((body as { topics: string[] }).topics.toSorted()).toEqual(["job.failed", "job.started"]);
  });

  it("is changed from what it is, and is told of one thing at least", async () => {
    server.on("GET /webhooks/3", WEBHOOK);
    server.on("PATCH /webhooks/3", WEBHOOK);
    const { user } = await renderPage(Edit);
    expect(screen.getByRole<HTMLInputElement>("textbox", { name: "Title" }).value).toBe("chat");
    const save = screen.getByRole<HTMLButtonElement>("button", { name: "Save" });
    await user.click(screen.getByRole("checkbox", { name: "A job failed for good" }));
    await waitFor(() => expect(save.disabled).toBe(false));
    await user.click(screen.getByRole("checkbox", { name: "A job reports no progress" }));
    expect(save.disabled).toBe(true);
    await user.click(screen.getByRole("checkbox", { name: "A trial run failed" }));
    await user.click(save);
    expect(server.sent("PATCH /webhooks/3").map(({ body }) => body)).toEqual([
      { url: WEBHOOK.url, title: "chat", topics: ["job.trial_failed"] },
    ]);
  });
});
