import { screen, within } from "@testing-library/react";
import { beforeEach, describe, expect, it } from "vitest";

import { NodePage } from "@/features/nodes/node-page";
import { renderPage, rowsOf } from "@/testing/render";
import { aGpu, aNode } from "@/testing/samples";
import { page, Refusal, server } from "@/testing/server";
import { openStream } from "@/testing/stream";

const where = { route: "/nodes/$name", at: "/nodes/bed-1" };
const node = aNode({
  id: 1,
  name: "bed-1",
  gpus: [aGpu({ id: 100, index: 0 }), aGpu({ id: 101, index: 1, healthy: false, problem: "Xid 79", state: "free" })],
});

beforeEach(() => {
  server.on("GET /nodes/bed-1", node);
  server.on("GET /nodes", page([node]));
  server.on("GET /jobs", page([]));
  server.on("GET /events", page([]));
  server.on("GET /nodes/bed-1/metrics", { series: [], marks: [] });
});

describe("the page of a node", () => {
  it("lists its GPUs with their place and what is wrong with them", async () => {
    await renderPage(NodePage, where);
    const table = await screen.findByRole("table", { name: "GPUs of the node" });
    const [first, second] = rowsOf(table);
    expect(first?.slice(0, 3)).toEqual(["0", "socket 0, switch 0", "16 GiB"]);
    expect(second?.[3]).toContain("Xid 79");
    expect(await screen.findByText("No verdict has changed")).toBeTruthy();
    expect(screen.getByText("No events")).toBeTruthy();
  });

  it("shows a verdict as soon as the stream brings it", async () => {
    const arrive = openStream();
    await renderPage(NodePage, where);
    expect(await screen.findByText("Nothing checked yet")).toBeTruthy();
    const health = [
      { name: "disk", verdict: "failed" as const, message: "97 % full", gpu: null, since: "2026-01-01T00:00:00Z" },
    ];
    await arrive({
      type: "objects",
      objects: [{ kind: "node", id: 1, version: 2, data: { ...node, version: 2, health } }],
    });
    const table = screen.getByRole("table", { name: "Health checks" });
    const row = within(table).getByRole("row", { name: /97 % full$/ });
    expect(within(row).getByText("Failed")).toBeTruthy();
  });

  it("shows what its storage delivers, where it says so", async () => {
    server.on("GET /nodes/bed-1", { ...node, storage_bandwidth: 2 * 2 ** 30, cache_bytes: 500 * 2 ** 30 });
    await renderPage(NodePage, where);
    expect(await screen.findByText("2 GiB/s, cache 500 GiB")).toBeTruthy();
  });

  it("lets only operators take it out of service", async () => {
    await renderPage(NodePage, where);
    await screen.findByRole("table", { name: "GPUs of the node" });
    expect(screen.queryByRole("button", { name: "Cordon" })).toBeNull();
  });

  it("offers operators to cordon it", async () => {
    await renderPage(NodePage, { ...where, as: { isOperator: true } });
    expect(await screen.findByRole("button", { name: "Cordon" })).toBeTruthy();
  });

  it("says that there is no such node", async () => {
    server.on("GET /nodes/bed-1", new Refusal(404, { code: "not_found", detail: "There is no node bed-1." }));
    await renderPage(NodePage, where);
    expect((await screen.findByRole("alert")).textContent).toContain("There is no node bed-1.");
    expect(screen.getByRole("heading", { name: "bed-1" })).toBeTruthy();
  });
});
