/** Holds the WebSocket open: reconnects with backoff, notices a silent server, remembers what is watched. */

import type { ClientMessage, ServerMessage } from "@/live/messages";

export type Status = "connecting" | "live" | "offline";

/** Application close codes: the session ended, or may not listen. */
const SIGNED_OUT_CODES = [4401, 4403];

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 15_000;
const PING_EVERY_MS = 20_000;
const SILENCE_LIMIT_MS = 45_000;

/** Doubles from half a second to fifteen, spread by half so that a thousand pages do not return at once. */
export function reconnectDelay(failures: number, random: number): number {
  const longest = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** failures);
  return longest * (0.5 + random / 2);
}

export interface Listener {
  onMessage: (message: ServerMessage) => void;
  /** Called whenever the stream begins: everything missed must be fetched again. */
  onOpen: () => void;
  onStatus: (status: Status) => void;
  onSignedOut: () => void;
}

export class Connection {
  private socket: WebSocket | null = null;
  private timer: ReturnType<typeof setTimeout> | undefined;
  private heartbeat: ReturnType<typeof setInterval> | undefined;
  private failures = 0;
  private lastHeard = 0;
  private closed = true;
  private readonly watched = new Map<number, number>();

  constructor(
    private readonly url: string,
    private readonly listener: Listener,
  ) {}

  open(): void {
    if (!this.closed) return;
    this.closed = false;
    window.addEventListener("online", this.retryNow);
    window.addEventListener("offline", this.goOffline);
    document.addEventListener("visibilitychange", this.retryNow);
    this.connect();
  }

  close(): void {
    this.closed = true;
    clearTimeout(this.timer);
    clearInterval(this.heartbeat);
    window.removeEventListener("online", this.retryNow);
    window.removeEventListener("offline", this.goOffline);
    document.removeEventListener("visibilitychange", this.retryNow);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }

  /** Ask for a job's log lines until the returned function is called; watchers of one job share. */
  watchLog(job: number): () => void {
    const watchers = this.watched.get(job) ?? 0;
    this.watched.set(job, watchers + 1);
    if (watchers === 0) this.send({ type: "watch_log", job });
    return () => {
      const left = (this.watched.get(job) ?? 1) - 1;
      if (left > 0) {
        this.watched.set(job, left);
        return;
      }
      this.watched.delete(job);
      this.send({ type: "unwatch_log", job });
    };
  }

  private connect(): void {
    this.listener.onStatus(this.failures > 0 ? "offline" : "connecting");
    const socket = new WebSocket(this.url);
    this.socket = socket;
    socket.onopen = () => {
      this.lastHeard = Date.now();
      this.heartbeat = setInterval(() => this.beat(), PING_EVERY_MS);
    };
    socket.onmessage = (event: MessageEvent<string>) => {
      this.lastHeard = Date.now();
      const message = JSON.parse(event.data) as ServerMessage;
      if (message.type === "hello") this.begin();
      this.listener.onMessage(message);
    };
    socket.onclose = (event) => {
      if (this.socket !== socket) return;
      if (SIGNED_OUT_CODES.includes(event.code)) this.listener.onSignedOut();
      this.lose();
    };
  }

  /** Give up the socket, and connect again after a while. */
  private lose(): void {
    clearInterval(this.heartbeat);
    this.socket = null;
    this.timer = setTimeout(() => this.connect(), reconnectDelay(this.failures++, Math.random()));
    this.listener.onStatus("offline");
  }

  /** The server greets once it sends this page what changes: what is fetched before could already be old. */
  private begin(): void {
    this.failures = 0;
    this.listener.onStatus("live");
    for (const job of this.watched.keys()) this.send({ type: "watch_log", job });
    this.listener.onOpen();
  }

  /** A half-open socket says nothing for ever: ask, and give up on one that stays silent. */
  private beat(): void {
    if (Date.now() - this.lastHeard > SILENCE_LIMIT_MS) this.socket?.close();
    else this.send({ type: "ping" });
  }

  /** The browser knows that the network is gone long before the socket does. */
  private readonly goOffline = (): void => {
    const socket = this.socket;
    if (!socket) return;
    this.lose();
    socket.close();
  };

  private readonly retryNow = (): void => {
    if (this.socket || this.closed || document.hidden) return;
    clearTimeout(this.timer);
    this.connect();
  };

  private send(message: ClientMessage): void {
    if (this.socket?.readyState === WebSocket.OPEN) this.socket.send(JSON.stringify(message));
  }
}
