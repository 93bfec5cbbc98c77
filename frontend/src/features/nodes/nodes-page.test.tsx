import { screen } from "@testing-library/react";
import { expect, it } from "vitest";

import { NodesPage } from "@/features/nodes/nodes-page";
import { renderPage } from "@/testing/render";
import { aNode } from "@/testing/samples";
import { page, server } from "@/testing/server";

it("leads from the badge of a loan to who lent the node", async () => {
  const loan = {
    pool: "web",
    state: "lent" as const,
    by: "user ada",
    why: "",
    since: null,
    until: null,
    return_by: null,
  };
  server.on("GET /nodes", page([aNode({ id: 1, name: "bed-1", loan }), aNode({ id: 2, name: "bed-2" })]));
  await renderPage(NodesPage, { route: "/nodes", at: "/nodes" });
  const badge = await screen.findByRole("link", { name: /^Lent/ });
  screen.getByText("by pool web");
  expect(badge.getAttribute("href")).toBe("/nodes/bed-1");
  expect(badge.title).toBe("Serving pool web lends this node, lent by ada. The pool may recall it at any time.");
  expect(screen.queryByRole("link", { name: /^Ready/ })).toBeNull();
});

it("shows what is held of the CPUs and the memory of each node", async () => {
  const GIB = 2 ** 30;
  const held = { cpus: 32, cpus_held: 12.5, memory_bytes: 64 * GIB, memory_bytes_held: 16 * GIB };
  server.on("GET /nodes", page([aNode({ id: 1, ...held }), aNode({ id: 2, cpus: 0, memory_bytes: 0 })]));
  await renderPage(NodesPage, { route: "/nodes", at: "/nodes" });
  const [first, second] = await Promise.all(
    ["node-1", "node-2"].map((name) => screen.findByRole("row", { name: new RegExp(name) })),
  );
  expect(first?.textContent).toContain("12.5 of 32");
  expect(first?.textContent).toContain("16 GiB of 64 GiB");
  expect(second?.textContent).not.toContain("of 0");
});
