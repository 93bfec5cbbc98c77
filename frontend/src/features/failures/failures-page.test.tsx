import { screen, within } from "@testing-library/react";
import { beforeEach, describe, expect, it } from "vitest";

import { FailuresPage } from "@/features/failures/failures-page";
import { renderPage, rowsOf } from "@/testing/render";
import { aFailure } from "@/testing/samples";
import { page, server } from "@/testing/server";

beforeEach(() => {
  server.on("GET /tenants", page([]));
  server.on("GET /map/nodes", page([]));
  server.on("GET /failure-rules", {
    rules: [],
    classes: [{ name: "import_error", layer: "user", says: "a module is missing" }],
  });
  server.on("GET /cluster/settings", {});
});

describe("the page of failures", () => {
  it("lists failed attempts, and their rules on a second tab", async () => {
    server.on("GET /failures", page([aFailure({ job: 7, job_name: "bert" })]));
    const { user, address } = await renderPage(FailuresPage, { route: "/failures" });
    const [row] = rowsOf(await screen.findByRole("table", { name: "Failed attempts" }));
    expect(row?.slice(1, 4)).toEqual([
      "bert#7, attempt 1, vision",
      "Import error",
      "No module named jupyterInstall the module.",
    ]);
    expect(screen.getByRole("link", { name: "bert" }).getAttribute("href")).toBe("/jobs/7");
    await user.click(screen.getByRole("tab", { name: "Rules" }));
    expect(await screen.findByText("No rules of yours")).toBeTruthy();
    expect(address()).toBe("/failures?tab=rules");
  });

  it("asks for one class, within whole days, and for older pages", async () => {
    server.on("GET /failures", ({ query }: { query: Record<string, string> }) =>
      page([aFailure({ id: query.cursor ? 2 : 1 })], query.cursor ? null : "/api/v1/failures?cursor=after.x"),
    );
    const { user } = await renderPage(FailuresPage, { route: "/failures", at: "/failures?since=2026-01-02" });
    await screen.findByRole("option", { name: "Import error" });
    await user.selectOptions(screen.getByLabelText("Class"), "import_error");
    await user.click(await screen.findByRole("button", { name: "Show older failures" }));
    const last = server.sent("GET /failures").at(-1)?.query;
    expect(last).toEqual({
      failure: "import_error",
      since: new Date("2026-01-02T00:00").toISOString(),
      cursor: "after.x",
    });
    const table = screen.getByRole("table", { name: "Failed attempts" });
    expect(within(table).getAllByRole("row")).toHaveLength(3);
  });
});
