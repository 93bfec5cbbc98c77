import { screen } from "@testing-library/react";
import { beforeEach, describe, expect, it, vi } from "vitest";

import { ChangeDialog } from "@/components/job/change-dialog";
import { renderPage } from "@/testing/render";
import { aJob } from "@/testing/samples";
import { Edited, Refusal, server } from "@/testing/server";

const JOB = aJob({ id: 7, name: "train", priority: 2 });

beforeEach(() => server.on("GET /jobs/7", new Edited('"j1"', JOB)));

describe("Changing a job", () => {
  it("sends what was typed, and a time limit only where it is another", async () => {
    const onClose = vi.fn();
    server.on("PATCH /jobs/7", { ...JOB, name: "renamed", version: 9 });
    const { user } = await renderPage(() => <ChangeDialog job={JOB} onClose={onClose} />);
    await user.clear(screen.getByLabelText("Name"));
    await user.type(screen.getByLabelText("Name"), "renamed");
    await user.click(screen.getByRole("button", { name: "Change" }));
    await vi.waitFor(() => expect(onClose).toHaveBeenCalled());
    expect(server.sent("PATCH /jobs/7")[0]).toMatchObject({
      ifMatch: '"j1"',
      body: { name: "renamed", priority: 2 },
    });
  });

  it("tells a refusal at its field", async () => {
    server.on(
      "PATCH /jobs/7",
      new Refusal(409, {
        code: "conflict",
        detail: "time_limit can only be made shorter.",
        fields: [{ field: "time_limit", problem: "can only be made shorter", expected: "at most 2 h" }],
      }),
    );
    const { user } = await renderPage(() => <ChangeDialog job={JOB} onClose={() => undefined} />);
    await user.type(screen.getByLabelText("Time limit"), "9h");
    await user.click(screen.getByRole("button", { name: "Change" }));
    expect(await screen.findByText(/can only be made shorter/)).toBeTruthy();
  });
});
