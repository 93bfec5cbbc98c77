import { fireEvent, screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { ArtefactsPanel } from "@/features/job/artefacts-panel";
import { renderPage } from "@/testing/render";
import { page, Refusal, server } from "@/testing/server";

const FOLDER = {
  name: "step-1",
  path: "run 1/step-1",
  kind: "folder",
  bytes: null,
  modified_at: "2026-11-25T10:00:00Z",
};
const FILE = {
  name: "model & co.pt",
  path: "run 1/model & co.pt",
  kind: "file",
  bytes: 3 * 2 ** 30,
  modified_at: null,
};
const LINK = { name: "latest", path: "run 1/latest", kind: "link", bytes: null, modified_at: null };

describe("The files of a job", () => {
  it("are shown with their sizes, folders as links, and a download for each file and nothing else", async () => {
    server.on("GET /jobs/7/artefacts", page([FOLDER, FILE, LINK]));
    await renderPage(() => <ArtefactsPanel job={7} path="run 1" />);
    const folder = await screen.findByRole("link", { name: "step-1/" });
    expect(folder.getAttribute("href")).toBe("/jobs/7?tab=files&path=run+1%2Fstep-1");
    expect(screen.getByText("3 GiB")).toBeTruthy();
    expect(screen.getByText("link, not followed")).toBeTruthy();
    const downloads = screen.getAllByTitle("Download");
    expect(downloads.map((each) => [each.textContent, each.getAttribute("href")])).toEqual([
      ["model & co.pt ", "/api/v1/jobs/7/artefacts/content?path=run+1%2Fmodel+%26+co.pt"],
    ]);
    expect(screen.getByRole("link", { name: "Checkpoint folder" }).getAttribute("href")).toBe(
      "/jobs/7?tab=files&path=",
    );
  });

  it("come page by page", async () => {
    server.on("GET /jobs/7/artefacts", ({ query }: { query: Record<string, string> }) =>
      query.cursor === FILE.name ? page([LINK]) : page([FILE], "/api/v1/jobs/7/artefacts?cursor=model+%26+co.pt"),
    );
    await renderPage(() => <ArtefactsPanel job={7} path="" />);
    fireEvent.click(await screen.findByRole("button", { name: "Show more" }));
    await waitFor(() => expect(screen.getByText("latest")).toBeTruthy());
    expect(screen.getByText("model & co.pt")).toBeTruthy();
  });

  it("that there are none is said with where the job would write them", async () => {
    server.on("GET /jobs/7/artefacts", page([]));
    await renderPage(() => <ArtefactsPanel job={7} path="" />);
    expect(await screen.findByText("Nothing in $ALLOT_CHECKPOINT_DIR")).toBeTruthy();
  });

  it("that the server does not see are told in its words", async () => {
    const detail = "The server does not see the checkpoint folder of the nodes.";
    server.on("GET /jobs/7/artefacts", new Refusal(409, { code: "conflict", detail }));
    await renderPage(() => <ArtefactsPanel job={7} path="" />);
    expect(await screen.findByText(/does not see the checkpoint folder/)).toBeTruthy();
  });
});
