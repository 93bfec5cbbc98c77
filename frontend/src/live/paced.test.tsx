import { act, render, screen } from "@testing-library/react";
import { useEffect } from "react";
import { afterEach, expect, it, vi } from "vitest";

import { live } from "@/live/live";
import { usePacedLiveState } from "@/live/paced";

afterEach(() => {
  vi.restoreAllMocks();
  vi.useRealTimers();
});

it("rests four times as long as the page took to draw, and then shows the newest", () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  let now = 1_000;
  vi.spyOn(performance, "now").mockImplementation(() => now);
  const frames: FrameRequestCallback[] = [];
  vi.spyOn(window, "requestAnimationFrame").mockImplementation((callback) => frames.push(callback));
  const listeners = new Set<() => void>();
  vi.spyOn(live, "subscribe").mockImplementation((listener) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  });
  const initial = live.current();
  const current = vi.spyOn(live, "current");
  let drawMs = 0;
  const Drawn = ({ clock }: { clock: string }) => {
    useEffect(() => void (now += drawMs), [clock]);
    return <p>{clock}</p>;
  };
  const Page = () => <Drawn clock={`at ${usePacedLiveState().clock}`} />;
  const hears = (clock: number) => {
    current.mockReturnValue({ ...initial, clock });
    act(() => listeners.forEach((listener) => listener()));
  };
  const paints = () => {
    for (const frame of frames.splice(0)) frame((now += 17));
  };
  const passes = (milliseconds: number) => {
    now += milliseconds;
    act(() => void vi.advanceTimersByTime(milliseconds));
  };
  render(<Page />);
  drawMs = 100;
  hears(1);
  expect(screen.getByText("at 1")).toBeTruthy();
  hears(2);
  for (let frame = 0; frame < 4; frame++) paints();
  passes(399);
  hears(3);
  expect(screen.getByText("at 1")).toBeTruthy();
  passes(1);
  expect(screen.getByText("at 3")).toBeTruthy();
});
