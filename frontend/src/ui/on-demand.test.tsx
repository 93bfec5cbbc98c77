import { screen } from "@testing-library/react";
import { useState } from "react";
import { expect, it } from "vitest";

import { renderPage } from "@/testing/render";
import { onDemand } from "@/ui/on-demand";

const Greeting = ({ name }: { name: string; onClose: () => void }) => <p>Hello {name}</p>;

function pageWith(Part: typeof Greeting) {
  return function Page() {
    const [isOpen, setOpen] = useState(false);
    return (
      <>
        <input aria-label="Notes" />
        <button onClick={() => setOpen(true)}>Open</button>
        <output>{isOpen ? "open" : "closed"}</output>
        {isOpen && <Part name="Ada" onClose={() => setOpen(false)} />}
      </>
    );
  };
}

it("fetches a component when it is first shown", async () => {
  let fetched = 0;
  const Part = onDemand(() => {
    fetched += 1;
    return Promise.resolve(Greeting);
  });
  const { user } = await renderPage(pageWith(Part as typeof Greeting));
  expect(fetched).toBe(0);
  await user.click(screen.getByRole("button", { name: "Open" }));
  expect(await screen.findByText("Hello Ada")).toBeTruthy();
  expect(fetched).toBe(1);
});

it("says what cannot be fetched, closes it, and keeps what was typed", async () => {
  const Part = onDemand<Parameters<typeof Greeting>[0]>(() => Promise.reject(new Error("404")));
  const { user } = await renderPage(pageWith(Part as typeof Greeting));
  await user.type(screen.getByRole("textbox", { name: "Notes" }), "half a sentence");
  await user.click(screen.getByRole("button", { name: "Open" }));
  expect(await screen.findByText(/cannot be loaded: reload the page/)).toBeTruthy();
  expect(screen.getByText("closed")).toBeTruthy();
  expect(screen.getByRole<HTMLInputElement>("textbox", { name: "Notes" }).value).toBe("half a sentence");
});
