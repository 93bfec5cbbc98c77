import { screen, waitFor, within } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";

import { AddNode } from "@/features/nodes/nodes-page";
import { DrainDialog } from "@/features/nodes/withdraw-dialog";
import { renderPage } from "@/testing/render";
import { aNode } from "@/testing/samples";
import { Refusal, server } from "@/testing/server";

const done = vi.fn();
const Add = () => <AddNode onClose={done} />;
const Drain = () => <DrainDialog node={aNode({ name: "bed-1" })} onClose={done} />;

describe("the forms of nodes", () => {
  it("add one whose name is free, and show the file and the command that start its agent", async () => {
    const taken = { field: "name", problem: "there is already a node bed-1", expected: "a name that is not taken" };
    server.on("POST /nodes", new Refusal(409, { code: "conflict", detail: "No.", fields: [taken] }));
    const { user } = await renderPage(Add);
    const name = screen.getByRole<HTMLInputElement>("textbox", { name: "Name" });
    await user.type(name, "bed-1");
    await user.type(screen.getByRole("textbox", { name: "Rack" }), "north");
    await user.click(screen.getByRole("button", { name: "Add the node" }));
    expect(await screen.findByText(/there is already a node bed-1; expected/)).toBeTruthy();
    expect(name.value).toBe("bed-1");

    const agent = {
      file: "bed-17.json",
      command: "python -m nodeagent --config bed-17.json",
      real: { server_url: "https://gpus.example", token: "altn_1", inventory: { kind: "nvml" } },
      simulated: { server_url: "https://gpus.example", token: "altn_1", inventory: { kind: "simulated" } },
    };
    server.on("POST /nodes", { ...aNode({ name: "bed-17" }), token: "altn_1", agent });
    await user.type(name, "7");
    await user.click(screen.getByRole("button", { name: "Add the node" }));
    const file = await screen.findByRole("region", { name: "1. Save as bed-17.json" });
    const text = () => JSON.parse(file.querySelector("pre")?.textContent ?? "") as unknown;
    expect(text()).toEqual(agent.real);
    expect(screen.getByText(agent.command)).toBeTruthy();
    expect(within(file).getByRole("button", { name: "Copy the file" })).toBeTruthy();
    expect(screen.queryByText(/has no TLS/)).toBeNull();
    expect(server.sent("POST /nodes").at(-1)?.body).toEqual({ name: "bed-17", rack: "north" });
    await user.click(screen.getByRole("radio", { name: "Simulated GPUs" }));
    expect(text()).toEqual(agent.simulated);
  });

  it("empty one at a time that is still to come", async () => {
    const past = { field: "until", problem: "is not in the future" };
    server.on("POST /nodes/bed-1/drain", new Refusal(409, { code: "conflict", detail: "No.", fields: [past] }));
    const { user } = await renderPage(Drain);
    expect(screen.getByRole("button", { name: "Drain now" })).toBeTruthy();
    await user.selectOptions(screen.getByRole("combobox", { name: "When" }), "At a time");
    await user.type(screen.getByLabelText("Time"), "2020-01-01T00:00");
    await user.type(screen.getByRole("textbox", { name: "Why" }), "a new fan");
    await user.click(screen.getByRole("button", { name: "Drain" }));
    expect(await screen.findByText("is not in the future")).toBeTruthy();

    server.on("POST /nodes/bed-1/drain", aNode({ name: "bed-1", draining: true }));
    await user.selectOptions(screen.getByRole("combobox", { name: "When" }), "In 1 hour");
    await user.click(screen.getByRole("button", { name: "Drain" }));
    await waitFor(() => expect(done).toHaveBeenCalled());
    expect(server.sent("POST /nodes/bed-1/drain").map(({ body }) => body)).toEqual([
      { until: new Date("2020-01-01T00:00").toISOString(), why: "a new fan" },
      { deadline_seconds: 3600, why: "a new fan" },
    ]);
  });
});
