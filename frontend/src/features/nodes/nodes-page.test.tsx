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
