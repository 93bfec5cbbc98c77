import { screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { PasswordPanel } from "@/features/account/account-page";
import { renderPage } from "@/testing/render";
import { Refusal, server } from "@/testing/server";

describe("one's own password", () => {
  it("stays typed when it is refused, and is gone from the page once it is changed", async () => {
    const wrong = { field: "current", problem: "is not your password" };
    server.on("POST /session/password", new Refusal(400, { code: "invalid", detail: "No.", fields: [wrong] }));
    const { user } = await renderPage(PasswordPanel);
    const [present, next] = ["Current password", "New password"].map((name) =>
      screen.getByLabelText<HTMLInputElement>(name),
    );
    if (!present || !next) throw new Error("The form has two fields.");
    await user.type(present, "rose");
    await user.type(next, "a long new password");
    await user.click(screen.getByRole("checkbox", { name: "Also revoke my API tokens" }));
    await user.click(screen.getByRole("button", { name: "Change the password" }));
    expect(await screen.findByText("is not your password")).toBeTruthy();
    expect(document.activeElement).toBe(present);
    expect([present.value, next.value]).toEqual(["rose", "a long new password"]);

    server.on("POST /session/password", undefined);
    await user.type(present, "s");
    await user.click(screen.getByRole("button", { name: "Change the password" }));
    await waitFor(() => expect([present.value, next.value]).toEqual(["", ""]));
    expect(server.sent("POST /session/password").map(({ body }) => body)).toEqual([
      { current: "rose", new: "a long new password", end_tokens: false },
      { current: "roses", new: "a long new password", end_tokens: false },
    ]);
    expect(screen.getByRole<HTMLInputElement>("checkbox").checked).toBe(false);
  });
});
