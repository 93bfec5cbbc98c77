import { render, screen } from "@testing-library/react";
import { describe, expect, it } from "vitest";

import { aUser } from "@/testing/user";

const FIELD = <input aria-label="Name" />;

describe("a user", () => {
  let goOn: () => void;

  it("types at once", async () => {
    const user = aUser();
    goOn = () => void user.keyboard("left over");
    render(FIELD);
    await user.type(screen.getByRole("textbox"), "typed");
    expect(screen.getByRole<HTMLInputElement>("textbox").value).toBe("typed");
  });

  it("types nothing into the page of the next test", async () => {
    const user = aUser();
    render(FIELD);
    const field = screen.getByRole<HTMLInputElement>("textbox");
    await user.click(field);
    goOn();
    await user.keyboard("own");
    expect(field.value).toBe("own");
  });

  it("clicks once what covers the page is gone", async () => {
    const user = aUser();
    render(FIELD);
    document.body.style.pointerEvents = "none";
    setTimeout(() => (document.body.style.pointerEvents = ""), 50);
    await user.click(screen.getByRole("textbox"));
    expect(document.activeElement).toBe(screen.getByRole("textbox"));
  });

  it("is the only one in all tests", () => {
    const tests = import.meta.glob<string>("/src/**/*.test.tsx", { query: "?raw", import: "default", eager: true });
    expect(Object.keys(tests).length).toBeGreaterThan(10);
    const others = Object.entries(tests).filter(([, text]) => text.includes('from "@testing-library/user-event"'));
    expect(others.map(([path]) => path)).toEqual([]);
  });
});
