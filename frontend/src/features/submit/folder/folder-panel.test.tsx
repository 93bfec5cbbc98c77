import { screen, waitFor } from "@testing-library/react";
import { describe, expect, it, vi } from "vitest";

import { ApiError } from "@/api/client";
import type { Packed } from "@/features/submit/folder/pack-folder";
import { FolderPanel } from "@/features/submit/folder/folder-panel";
import { renderPage } from "@/testing/render";

type Send = (tenant: string, packed: Packed, onSent: (bytes: number) => void, signal: AbortSignal) => Promise<unknown>;
const send = vi.hoisted(() => ({ archive: vi.fn<Send>() }));
// What is sent by XMLHttpRequest is seen by the browser test.
vi.mock("@/features/submit/folder/send-archive", () => ({ sendArchive: send.archive }));

const DIGEST = `sha256:${"0c8a".repeat(16)}`;

function aFile(): File {
  const file = new File(["print(1)"], "train.py");
  Object.defineProperty(file, "webkitRelativePath", { value: "project/train.py" });
  return file;
}

async function shown(archive?: string) {
  const onArchive = vi.fn();
  const panel = () => <FolderPanel tenant="vision" archive={archive} onArchive={onArchive} />;
  const { user } = await renderPage(panel, { route: "/submit", as: { roles: { vision: "member" } } });
  return { user, onArchive, input: await screen.findByLabelText<HTMLInputElement>("Folder") };
}

describe("the folder that a job starts in", () => {
  it("is packed, sent and named", async () => {
    send.archive.mockResolvedValueOnce({ archive: DIGEST, files: 1, unpacked_bytes: 8 });
    const { user, onArchive, input } = await shown();
    await user.upload(input, aFile());
    await waitFor(() => expect(onArchive).toHaveBeenCalledWith(DIGEST));
    expect(send.archive.mock.lastCall?.[0]).toBe("vision");
    expect(send.archive.mock.lastCall?.[1].digest).toMatch(/^sha256:[0-9a-f]{64}$/);
  });

  it("can be cancelled on its way, and a refusal is said", async () => {
    send.archive.mockImplementationOnce(
      (_tenant, _packed, onSent, signal) =>
        new Promise((_resolve, reject) => {
          onSent(5);
          signal.addEventListener("abort", () => reject(new DOMException("cancelled", "AbortError")));
        }),
    );
    const { user, onArchive, input } = await shown();
    await user.upload(input, aFile());
    expect(await screen.findByText(/Uploading project: 5 B of/)).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Cancel" }));
    expect(await screen.findByRole("button", { name: "Upload a folder" })).toBeTruthy();
    expect(screen.queryByRole("alert")).toBeNull();

    send.archive.mockRejectedValueOnce(new ApiError(413, "too_large", "The archive is larger than this server takes."));
    await user.upload(screen.getByLabelText("Folder"), aFile());
    expect((await screen.findByRole("alert")).textContent).toContain("larger than this server takes");
    expect(onArchive).not.toHaveBeenCalled();
  });

  it("can be left out again", async () => {
    const { user, onArchive } = await shown(DIGEST);
    expect(screen.getByText("The job starts in the folder sha256:0c8a0c8a0c8a.")).toBeTruthy();
    await user.click(screen.getByRole("button", { name: "Leave it out" }));
    expect(onArchive).toHaveBeenCalledWith(undefined);
  });
});
