/** The live stream in place of a WebSocket: tests say what arrives. */

import { act } from "@testing-library/react";
import { onTestFinished, vi } from "vitest";

import { live } from "@/live/live";
import type { ServerMessage } from "@/live/messages";

class TestSocket {
  static readonly OPEN = 1;
  static opened: TestSocket[] = [];
  readyState = TestSocket.OPEN;
  sent: string[] = [];
  onopen: (() => void) | null = null;
  onmessage: ((event: { data: string }) => void) | null = null;
  onclose: ((event: { code: number }) => void) | null = null;

  constructor(readonly url: string) {
    TestSocket.opened.push(this);
  }

  send(text: string): void {
    this.sent.push(text);
  }

  close(): void {
    this.readyState = 3;
  }
}

/**
 * Open the stream for one test; the function it returns lets a message arrive and waits until it is drawn.
 * `start` opens the socket, and returns what closes it.
 */
export function openStream(
  start = () =>
    live.start(
      () => undefined,
      () => undefined,
    ),
): (message: ServerMessage) => Promise<void> {
  vi.stubGlobal("WebSocket", TestSocket);
  const stop = start();
  onTestFinished(() => {
    stop();
    live.apply({ type: "forget" });
  });
  const socket = TestSocket.opened.at(-1);
  if (!socket) throw new Error("The stream opened no socket.");
  socket.onopen?.();
  socket.onmessage?.({ data: JSON.stringify({ type: "hello", version: 1, server: "test" }) });
  return (message) =>
    act(async () => {
      socket.onmessage?.({ data: JSON.stringify(message) });
      // The page draws what came once per frame.
      await new Promise(requestAnimationFrame);
    });
}
