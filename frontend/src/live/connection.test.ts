import { describe, expect, it, vi } from "vitest";

import { Connection, reconnectDelay } from "@/live/connection";

describe("a connection", () => {
  it("lets the page fetch only once the server sends what changes", () => {
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
      close = vi.fn();
    }
    vi.stubGlobal("WebSocket", FakeSocket);
    for (const name of ["window", "document"]) vi.stubGlobal(name, new EventTarget());
    const onOpen = vi.fn();
    const onStatus = vi.fn();
    const connection = new Connection("ws://here/ws/live", {
      onMessage: vi.fn(),
      onOpen,
      onStatus,
      onSignedOut: vi.fn(),
    });
    connection.open();
    connection.watchLog(7);
    sockets[0]?.onopen?.();
    expect(onOpen).not.toHaveBeenCalled();
    expect(onStatus).not.toHaveBeenCalledWith("live");

    sockets[0]?.onmessage?.({ data: JSON.stringify({ type: "hello", version: 1, server: "here" }) });
    expect(onOpen).toHaveBeenCalledOnce();
    expect(onStatus).toHaveBeenLastCalledWith("live");
    expect(sockets[0]?.send).toHaveBeenLastCalledWith(JSON.stringify({ type: "watch_log", job: 7 }));
    connection.close();
    vi.unstubAllGlobals();
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
