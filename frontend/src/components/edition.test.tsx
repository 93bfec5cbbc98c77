import { useMutation } from "@tanstack/react-query";
import { screen, waitFor } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { answerOf, api } from "@/api/client";
import { editionQuery } from "@/api/edition";
import type { Tenant } from "@/api/schema";
import { rebased, useEdition } from "@/components/edition";
import { useSentForm } from "@/components/sent-form";
import { renderPage } from "@/testing/render";
import { Edited, Refusal, server } from "@/testing/server";
import { FormDialog } from "@/ui/dialog";
import { TextField } from "@/ui/field";

const SHOWN = { name: "red", title: "As the list has it" } as Tenant;
const query = editionQuery(["tenants", "red"], () => api.GET("/tenants/{name}", { params: { path: { name: "red" } } }));

/** A form of one field, as most forms are built. */
function TitleForm() {
  const editing = useEdition(query, SHOWN);
  const change = useMutation({
    mutationFn: (body: { title: string; other: string }) =>
      answerOf(api.PATCH("/tenants/{name}", { params: { path: { name: "red" }, header: editing.edition }, body })),
  });
  const initial = { title: editing.thing.title, other: editing.thing.name };
  const { sending, field } = useSentForm(initial, change, { editing });
  return (
    <FormDialog title="Red" sending={sending} action="Save" onClose={() => undefined}>
      <TextField {...field("title")} label="Title" />
      <TextField {...field("other")} label="Other" />
    </FormDialog>
  );
}

const OUTDATED = new Refusal(412, { code: "outdated", detail: "It was changed since it was read.", fields: [] });

const save = () => screen.getByRole<HTMLButtonElement>("button", { name: "Save" });
const text = (name: string) => screen.getByRole<HTMLInputElement>("textbox", { name });
const changes = () => server.sent("PATCH /tenants/red").map(({ ifMatch, body }) => [ifMatch, body]);

describe("a form of what others may edit at the same time", () => {
  it("begins with what is in force, and sends the edition that it began with", async () => {
    server.on("GET /tenants/red", new Edited('"1"', { name: "red", title: "In force" }));
    server.on("PATCH /tenants/red", {});
    const { user } = await renderPage(TitleForm);
    await waitFor(() => expect([text("Title").value, save().disabled]).toEqual(["In force", false]));
    await user.type(text("Title"), " now");
    await user.click(save());
    await waitFor(() => expect(changes()).toEqual([['"1"', { title: "In force now", other: "red" }]]));
  });

  it("says that somebody else was faster, and loads that without losing what was typed", async () => {
    server.on("GET /tenants/red", new Edited('"1"', { name: "red", title: "First" }));
    server.on("PATCH /tenants/red", OUTDATED);
    const { user } = await renderPage(TitleForm);
    await waitFor(() => expect(save().disabled).toBe(false));
    await user.clear(text("Title"));
    await user.type(text("Title"), "Mine");
    await user.click(save());
    expect((await screen.findByRole("alert")).textContent).toContain("It was changed since it was read.");

    // It can be tried again, and is refused again: nothing is overwritten unseen.
    await user.click(save());
    await waitFor(() => expect(changes().map(([edition]) => edition)).toEqual(['"1"', '"1"']));

    server.on("GET /tenants/red", new Edited('"2"', { name: "crimson", title: "Theirs" }));
    server.on("PATCH /tenants/red", {});
    await user.click(await screen.findByRole("button", { name: "Load the new state" }));
    await waitFor(() => expect(text("Other").value).toBe("crimson"));
    expect(text("Title").value).toBe("Mine");
    expect(screen.queryByRole("alert")).toBeNull();
    await waitFor(() => expect(save().disabled).toBe(false));
    await user.click(save());
    await waitFor(() => expect(changes().at(-1)).toEqual(['"2"', { title: "Mine", other: "crimson" }]));
  });

  it("sends nothing while it could not read what it changes", async () => {
    server.on("GET /tenants/red", new Refusal(503, { code: "unavailable", detail: "Try again.", fields: [] }));
    const { user } = await renderPage(TitleForm);
    expect((await screen.findByRole("alert")).textContent).toContain("Try again.");
    expect(save().disabled).toBe(true);
    server.on("GET /tenants/red", new Edited('"1"', { name: "red", title: "In force" }));
    await user.click(screen.getByRole("button", { name: "Load the new state" }));
    await waitFor(() => expect(text("Title").value).toBe("In force"));
    expect(save().disabled).toBe(false);
  });
});

describe("what was typed, after others changed what it began with", () => {
  it("stays where it differs; tables line by line, other objects whole", () => {
    const was = { title: "a", sharing: "never", gpus: { V100: 4, P100: 2 }, policy: { name: "fifo", parameters: {} } };
    const typed = { ...was, title: "b", gpus: { V100: 8, P100: 2 }, policy: { name: "las", parameters: {} } };
    const now = {
      title: "c",
      sharing: "free",
      gpus: { V100: 4, K80: 1 },
      policy: { name: "fifo", parameters: { x: 1 } },
    };
    expect(rebased<object>(was, typed, now)).toEqual({
      title: "b",
      sharing: "free",
      gpus: { V100: 8, K80: 1 },
      policy: { name: "las", parameters: {} },
    });
  });
});
