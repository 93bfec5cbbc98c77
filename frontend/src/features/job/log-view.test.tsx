import { cleanup, screen } from "@testing-library/react";
import { beforeEach, expect, it } from "vitest";

import { clockTime } from "@/components/format";
import { LogPanel } from "@/features/job/log-view";
import { renderPage } from "@/testing/render";
import { aJob, anAttempt } from "@/testing/samples";
import { server } from "@/testing/server";
import { openStream } from "@/testing/stream";

const AT = "2026-01-01T10:00:05Z";

beforeEach(() => {
  localStorage.clear();
  server.on("GET /jobs/3/logs", {
    attempt: 1,
    rank: 0,
    ranks: [0],
    tasks: ["main"],
    chunks: [{ sequence: 0, at: AT, text: "epoch 1\n" }],
    next_after: 0,
    complete: true,
    truncated: false,
    removed: null,
  });
});

it("shows the time of each line by the viewer's clock when asked, and next time too", async () => {
  openStream();
  const Log = () => <LogPanel job={aJob({ id: 3 })} attempts={[anAttempt({})]} />;
  const { user } = await renderPage(Log);
  await screen.findByText("epoch 1");
  expect(screen.queryByText(clockTime(AT))).toBeNull();
  await user.click(screen.getByRole("button", { name: "Times", pressed: false }));
  screen.getByText(clockTime(AT));
  cleanup();
  await renderPage(Log);
  await screen.findByText(clockTime(AT));
  screen.getByRole("button", { name: "Times", pressed: true });
});
