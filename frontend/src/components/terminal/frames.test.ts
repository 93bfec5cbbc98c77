import { describe, expect, it } from "vitest";

import { cost, Flow, frameOf, INPUT, OUTPUT, sizeFrame, TAKEN, WINDOW, type Frame } from "@/components/terminal/frames";

function recorded() {
  const sent: Frame[] = [];
  return { sent, flow: new Flow((frame) => sent.push(frame)) };
}

const total = (frames: Frame[]) => frames.reduce((sum, frame) => sum + cost(frame), 0);

describe("the flow of a session", () => {
  it("stops at the window and goes on, in order and without loss", () => {
    const { sent, flow } = recorded();
    const payload = Uint8Array.from({ length: 600_000 }, (_, index) => index % 251);
    flow.data(payload);
    expect(total(sent)).toBeLessThanOrEqual(WINDOW);
    for (let told = 0; told < 10; told += 1) {
      const word = new DataView(new ArrayBuffer(4));
      word.setUint32(0, WINDOW);
      flow.regain(frameOf(TAKEN, new Uint8Array(word.buffer)));
    }
    const got = sent.flatMap((frame) => Array.from(frame.subarray(1)));
    expect(got.length).toBe(payload.length);
    expect(got.every((byte, index) => byte === payload[index])).toBe(true);
    expect(sent.every((frame) => frame[0] === INPUT)).toBe(true);
  });

  it("says what was taken in before the other end has to wait", () => {
    const { sent, flow } = recorded();
    const frame = frameOf(OUTPUT, new Uint8Array(20_000));
    for (let taken = 0; taken < WINDOW / 2; taken += cost(frame)) flow.consumed(frame);
    expect(sent.length).toBeGreaterThanOrEqual(1);
    expect(sent.every((word) => word[0] === TAKEN && word.length === 5)).toBe(true);
  });

  it("writes sizes as two numbers", () => {
    expect(Array.from(sizeFrame(40, 300))).toEqual(["s".charCodeAt(0), 0, 40, 1, 44]);
  });
});
