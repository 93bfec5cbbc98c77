import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { act, fireEvent, render, renderHook, screen } from "@testing-library/react";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";

import { TypedSearch } from "@/components/filter";
import { useTypedCheck, useTypingPause } from "@/components/typing";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

/** Nobody types for so long that a pause is over, and what was asked then is answered. */
async function pause(): Promise<void> {
  for (let part = 0; part < 2; part++) await act(() => vi.advanceTimersByTimeAsync(500));
}

describe("a pause in typing", () => {
  it("is told once, with what was typed last", async () => {
    const told = vi.fn();
    const { rerender } = renderHook(({ typed }) => useTypingPause(typed, told), { initialProps: { typed: "" } });
    await pause();
    told.mockClear();
    for (const typed of ["d", "di", "dig"]) {
      rerender({ typed });
      await act(() => vi.advanceTimersByTimeAsync(100));
    }
    expect(told).not.toHaveBeenCalled();
    await pause();
    expect(told.mock.calls).toEqual([["dig"]]);
  });

  it("is not told of a field that is gone", async () => {
    const told = vi.fn();
    const { unmount } = renderHook(() => useTypingPause("dig", told));
    unmount();
    await pause();
    expect(told).not.toHaveBeenCalled();
  });
});

describe("a search as one types", () => {
  it("searches once typing pauses, and takes over what is chosen elsewhere", async () => {
    const search = vi.fn();
    const { rerender } = render(<TypedSearch label="Search" value="" onChange={search} />);
    const field = screen.getByRole<HTMLInputElement>("searchbox", { name: "Search" });
    fireEvent.change(field, { target: { value: "digits" } });
    await pause();
    expect(search.mock.calls).toEqual([["digits"]]);

    rerender(<TypedSearch label="Search" value="digits" onChange={search} />);
    fireEvent.change(field, { target: { value: "digits-2" } });
    // A link was followed before the pause: what was typed until then does not undo it.
    rerender(<TypedSearch label="Search" value="speech" onChange={search} />);
    await pause();
    expect(field.value).toBe("speech");
    expect(search).toHaveBeenCalledTimes(1);
  });
});

describe("a check as one writes", () => {
  it("asks about what stood there last, and says meanwhile what is known of what stood there before", async () => {
    const asked: string[] = [];
    const queries = new QueryClient();
    const initialProps: { text: string | null } = { text: "a" };
    const { result, rerender } = renderHook(
      ({ text }) =>
        useTypedCheck(["check"], text === null ? null : { text }, (document) => {
          asked.push(document.text);
          return Promise.resolve(`${document.text} is right`);
        }),
      {
        initialProps,
        wrapper: ({ children }) => <QueryClientProvider client={queries}>{children}</QueryClientProvider>,
      },
    );
    await pause();
    expect(result.current).toEqual({ answer: "a is right", newest: "a is right", error: null });

    rerender({ text: "ab" });
    rerender({ text: "abc" });
    expect(result.current).toEqual({ answer: null, newest: "a is right", error: null });
    await pause();
    expect(result.current.answer).toBe("abc is right");

    rerender({ text: null });
    await pause();
    expect(result.current.answer).toBeNull();
    expect(asked).toEqual(["a", "abc"]);
  });
});
