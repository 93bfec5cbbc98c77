import { screen } from "@testing-library/react";
import { expect, it } from "vitest";

import { RoundPage } from "@/features/rounds/round-page";
import { renderPage } from "@/testing/render";
import { aRound } from "@/testing/samples";
import { server } from "@/testing/server";

it.each([
  [{ kept: 13, waiting: 10 }, "Running jobs kept what they had, and no waiting job could start."],
  [{ kept: 13 }, "Running jobs kept what they had, and no job was waiting."],
  [{ waiting: 10 }, "No job was running, and no waiting job could start."],
  [{}, "No job was running, and no job was waiting."],
  [{ state: "failed" as const, error: "Lost." }, "The round was not applied, so every job stayed as it was."],
])("says why a round with %j changed nothing", async (counts, text) => {
  server.on("GET /rounds/7", { ...aRound({ number: 7, ...counts }), overran: [], actions: [] });
  await renderPage(RoundPage, { route: "/rounds/$number", at: "/rounds/7" });
  expect(await screen.findByText("Nothing changed")).toBeTruthy();
  expect(screen.getByText(text)).toBeTruthy();
});
