import { useMutation } from "@tanstack/react-query";
import { screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { answerOf, api } from "@/api/client";
import { useSentForm } from "@/components/sent-form";
import { renderPage } from "@/testing/render";
import { Refusal, server } from "@/testing/server";
import { FormDialog } from "@/ui/dialog";
import { Checkbox, TextField } from "@/ui/field";
import { FieldGroup } from "@/ui/form";

interface Draft {
  name: string;
  scopes: ("submit" | "manage")[];
  expires_in_days: number | undefined;
}

/** A form of a text, a choice of several and a number. */
function NewToken() {
  const create = useMutation({
    mutationFn: ({ expires_in_days: days, ...rest }: Draft) =>
      answerOf(api.POST("/tokens", { body: { ...rest, expires_in_days: days ?? null } })),
  });
  const { sending, field, number, register, problem } = useSentForm<Draft>(
    { name: "", scopes: ["submit"], expires_in_days: 90 },
    create,
    { fieldOf: (name) => (name === "days" ? "expires_in_days" : name) },
  );
  return (
    <FormDialog title="New token" sending={sending} action="Create" onClose={() => undefined}>
      <TextField {...field("name")} label="Name" required />
      <FieldGroup legend="Scopes" problem={problem("scopes")}>
        <Checkbox {...register("scopes")} value="submit" label="Submit" />
        <Checkbox {...register("scopes")} value="manage" label="Manage" />
      </FieldGroup>
      <TextField {...number("expires_in_days")} label="Days" step="any" />
    </FormDialog>
  );
}

function refuse(...fields: { field: string; problem: string; expected?: string }[]): void {
  server.on("POST /tokens", new Refusal(400, { code: "invalid", detail: "It cannot be made so.", fields }));
}

const sent = () => server.sent("POST /tokens").map(({ body }) => body);

describe("a form that is sent", () => {
  it("sends what was typed, numbers as numbers", async () => {
    server.on("POST /tokens", {});
    const { user } = await renderPage(NewToken);
    await user.type(screen.getByRole("textbox", { name: "Name" }), "ci");
    await user.click(screen.getByRole("checkbox", { name: "Manage" }));
    await user.clear(screen.getByRole("spinbutton", { name: "Days" }));
    await user.type(screen.getByRole("spinbutton", { name: "Days" }), "2.5");
    const create = screen.getByRole<HTMLButtonElement>("button", { name: "Create" });
    await user.click(create);
    await waitFor(() => expect(create.disabled).toBe(false));
    await user.click(screen.getByRole("checkbox", { name: "Submit" }));
    await user.clear(screen.getByRole("spinbutton", { name: "Days" }));
    await user.click(create);
    await waitFor(() => expect(sent()).toHaveLength(2));
    expect(sent()).toEqual([
      { name: "ci", scopes: ["submit", "manage"], expires_in_days: 2.5 },
      { name: "ci", scopes: ["manage"], expires_in_days: null },
    ]);
  });

  it("says at each field what the server objects to, goes to the first, and keeps what was typed", async () => {
    refuse(
      { field: "days", problem: "is too long", expected: "365 at most" },
      { field: "scopes.1", problem: "is for admins" },
    );
    const { user } = await renderPage(NewToken);
    await user.type(screen.getByRole("textbox", { name: "Name" }), "ci");
    const days = screen.getByRole<HTMLInputElement>("spinbutton", { name: "Days" });
    await user.clear(days);
    await user.type(days, "9999");
    await user.click(screen.getByRole("checkbox", { name: "Manage" }));
    await user.click(screen.getByRole("button", { name: "Create" }));

    const problem = await screen.findByText("is too long; expected 365 at most");
    expect(days.getAttribute("aria-describedby")).toBe(problem.id);
    expect(document.activeElement).toBe(days);
    expect(screen.getByRole("group", { name: "Scopes" }).textContent).toContain("is for admins");
    expect(screen.getByRole("textbox", { name: "Name" }).getAttribute("aria-invalid")).toBeNull();
    // All is said where it belongs.
    expect(screen.queryByRole("alert")).toBeNull();
    expect([screen.getByRole<HTMLInputElement>("textbox", { name: "Name" }).value, days.value]).toEqual(["ci", "9999"]);

    server.on("POST /tokens", {});
    await user.clear(days);
    await user.type(days, "30");
    await user.click(screen.getByRole("button", { name: "Create" }));
    expect(sent().at(-1)).toEqual({ name: "ci", scopes: ["submit", "manage"], expires_in_days: 30 });
    expect(screen.queryByText(/is too long/)).toBeNull();
  });

  it.each([
    ["without a field", []],
    ["of a field that it does not have", [{ field: "user", problem: "has too many tokens" }]],
    [
      "of one that it has and one that it has not",
      [
        { field: "name", problem: "is taken" },
        { field: "user", problem: "" },
      ],
    ],
  ])("says above all fields what the server refuses %s", async (_, fields) => {
    refuse(...fields);
    const { user } = await renderPage(NewToken);
    await user.type(screen.getByRole("textbox", { name: "Name" }), "ci");
    await user.click(screen.getByRole("button", { name: "Create" }));
    expect((await screen.findByRole("alert")).textContent).toBe("It cannot be made so.");
  });
});
