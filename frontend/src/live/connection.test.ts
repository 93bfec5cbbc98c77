import { afterEach, describe, expect, it, vi } from "vitest";

import { Connection, reconnectDelay } from "@/live/connection";

/** Stands in for the browser's sockets and events. */
function aConnection() {
  const sockets: FakeSocket[] = [];
  class FakeSocket {
    static readonly OPEN = 1;
    readyState = FakeSocket.OPEN;
    onopen: (() => void) | undefined;
    onmessage: ((event: { data: string }) => void) | undefined;
    onclose: ((event: { code: number }) => void) | undefined;
    constructor(readonly url: string) {
      sockets.push(this);
    }
    send = vi.fn();
    close = vi.fn(() => this.onclose?.({ code: 1005 }));
    greet(): void {
      this.onopen?.();
      this.onmessage?.({ data: JSON.stringify({ type: "hello", version: 1, server: "here" }) });
    }
  }
  vi.stubGlobal("WebSocket", FakeSocket);
  for (const name of ["window", "document"]) vi.stubGlobal(name, new EventTarget());
  const listener = { onMessage: vi.fn(), onOpen: vi.fn(), onStatus: vi.fn(), onSignedOut: vi.fn() };
  const connection = new Connection("ws://here/ws/live", listener);
  connection.open();
  return { connection, sockets, ...listener };
}

afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

describe("a connection", () => {
  it("lets the page fetch only once the server sends what changes", () => {
    const { connection, sockets, onOpen, onStatus } = aConnection();
    connection.watchLog(7);
    sockets[0]?.onopen?.();
    expect(onOpen).not.toHaveBeenCalled();
    expect(onStatus).not.toHaveBeenCalledWith("live");

    sockets[0]?.greet();
    expect(onOpen).toHaveBeenCalledOnce();
    expect(onStatus).toHaveBeenLastCalledWith("live");
    expect(sockets[0]?.send).toHaveBeenLastCalledWith(JSON.stringify({ type: "watch_log", job: 7 }));
    connection.close();
  });

  it("says at once that the browser went offline, and connects again by itself", () => {
    vi.useFakeTimers();
    const { connection, sockets, onStatus } = aConnection();
    sockets[0]?.greet();
    window.dispatchEvent(new Event("offline"));
    expect(onStatus).toHaveBeenLastCalledWith("offline");
    expect(sockets[0]?.close).toHaveBeenCalledOnce();
    vi.runOnlyPendingTimers();
    expect(sockets).toHaveLength(2);
    sockets[1]?.greet();
    expect(onStatus).toHaveBeenLastCalledWith("live");
    connection.close();
    window.dispatchEvent(new Event("offline"));
    expect(onStatus).toHaveBeenLastCalledWith("live");
  });
});

describe("the delay before connecting again", () => {
  it("doubles, and never passes fifteen seconds", () => {
    const longest = [0, 1, 2, 3, 10].map((failures) => reconnectDelay(failures, 1));
    expect(longest).toEqual([500, 1000, 2000, 4000, 15_000]);
  });

  it("is spread over half its length", () => {
    expect(reconnectDelay(1, 0)).toBe(500);
    expect(reconnectDelay(1, 1)).toBe(1000);
  });
});
