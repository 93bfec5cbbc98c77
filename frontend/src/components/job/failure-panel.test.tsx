import { screen } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { FailurePanel } from "@/components/job/failure-panel";
import { renderPage } from "@/testing/render";
import { aFailure, aJob } from "@/testing/samples";
import { page, server } from "@/testing/server";

const FAILED = aJob({ id: 7, state: "failed", phase: "ended", exit_code: 1, message: "it broke" });

describe("what a failed job's page begins with", () => {
  it("names class, cause, advice and the end of the output of the rank that failed", async () => {
    server.on("GET /failures", page([aFailure({ job: 7, rank: 3, attempt: 2 })]));
    const lines = Array.from({ length: 20 }, (_, line) => `line ${line}\n`).join("");
    const coloured = lines.replace("line 5", "\u001b]0;title\u0007\u001b[1;31mline\u001b[0m 5");
    server.on("GET /jobs/7/logs", { chunks: [{ sequence: 4, at: "", text: coloured }], removed: null });
    await renderPage(() => <FailurePanel job={FAILED} />);
    expect(await screen.findByRole("heading", { name: "Failed: a module is missing" })).toBeTruthy();
    expect(screen.getByText("No module named jupyter")).toBeTruthy();
    expect(screen.getByText("Install the module.")).toBeTruthy();
    const shown = await screen.findByLabelText("Last lines of rank 3");
    expect(shown.textContent.split("\n")).toEqual(Array.from({ length: 15 }, (_, line) => `line ${line + 5}`));
    expect(server.sent("GET /jobs/7/logs")[0]?.query).toMatchObject({ attempt: "2", rank: "3", last: "15" });
    expect(screen.getByRole("link", { name: "Open the log" }).getAttribute("href")).toBe("/jobs/7?tab=log&rank=3");
  });

  it("says what the job itself knows where no attempt failed", async () => {
    server.on("GET /failures", page([]));
    await renderPage(() => <FailurePanel job={FAILED} />);
    expect(await screen.findByText("it broke")).toBeTruthy();
  });
});
