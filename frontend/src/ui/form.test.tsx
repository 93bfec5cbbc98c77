import { render, screen } from "@testing-library/react";
import { expect, test, vi } from "vitest";

import { Form } from "@/ui/form";

test("what went wrong comes into view, since who sends a long form is at its end", () => {
  const scroll = vi.spyOn(Element.prototype, "scrollIntoView");
  const form = (notice?: Error) => (
    <Form onSubmit={vi.fn()} notice={notice}>
      <input aria-label="Title" />
    </Form>
  );
  const { rerender } = render(form());
  expect(scroll).not.toHaveBeenCalled();
  rerender(form(new Error("It has changed since you read it.")));
  expect(scroll.mock.contexts).toEqual([screen.getByRole("alert")]);
});
