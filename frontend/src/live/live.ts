/** The page's one live store and connection, and the hooks through which components see them. */

import { useMemo, useSyncExternalStore } from "react";

import { Connection, type Status } from "@/live/connection";
import type { Kind, LedgerMessage, LogMessage, Objects, ProgressMessage, ServerMessage } from "@/live/messages";
import { emptyState, keyOf, reduce, withWhy, type Change, type LiveState, type Table } from "@/live/store";
import type { Job } from "@/api/schema";

/** Messages for one open page rather than for the store. */
export type Aside = LogMessage | ProgressMessage | LedgerMessage;

class Live {
  private state: LiveState = emptyState;
  private connectionStatus: Status = "connecting";
  private connection: Connection | null = null;
  private drawing = false;
  private readonly stateListeners = new Set<() => void>();
  private readonly statusListeners = new Set<() => void>();
  private readonly asideListeners = new Set<(message: Aside) => void>();

  readonly current = (): LiveState => this.state;
  readonly status = (): Status => this.connectionStatus;

  readonly subscribe = (listener: () => void): (() => void) => subscribeTo(this.stateListeners, listener);
  readonly subscribeStatus = (listener: () => void): (() => void) => subscribeTo(this.statusListeners, listener);
  readonly subscribeAside = (listener: (message: Aside) => void): (() => void) =>
    subscribeTo(this.asideListeners, listener);

  apply(change: Change): void {
    const next = reduce(this.state, change);
    if (next === this.state) return;
    this.state = next;
    this.drawSoon();
  }

  /** Connect; `onOpen` runs at each (re)connection, `onSignedOut` when the session has ended. */
  start(onOpen: () => void, onSignedOut: () => void): () => void {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    // Pages show what GPUs do from the recorded metrics.
    const connection = new Connection(`${scheme}//${location.host}/ws/live?samples=no`, {
      onMessage: (message) => this.receive(message),
      onOpen,
      onSignedOut,
      onStatus: (status) => {
        this.connectionStatus = status;
        for (const listener of this.statusListeners) listener();
      },
    });
    this.connection = connection;
    connection.open();
    return () => {
      connection.close();
      this.connection = null;
    };
  }

  watchLog(job: number): () => void {
    return this.connection?.watchLog(job) ?? (() => undefined);
  }

  private receive(message: ServerMessage): void {
    switch (message.type) {
      case "objects":
      case "queues":
        this.apply(message);
        break;
      case "usage":
        this.apply({ type: "usage", points: [message.point] });
        break;
      case "log":
      case "progress":
      case "ledger":
        for (const listener of this.asideListeners) listener(message);
        break;
      case "hello":
      case "samples":
      case "pong":
        break;
    }
  }

  /** Draw once per frame however many messages came, and not at all while the page is hidden. */
  private drawSoon(): void {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      for (const listener of this.stateListeners) listener();
    });
  }
}

function subscribeTo<T>(listeners: Set<T>, listener: T): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export const live = new Live();

export function useLiveState(): LiveState {
  return useSyncExternalStore(live.subscribe, live.current);
}

export function useConnectionStatus(): Status {
  return useSyncExternalStore(live.subscribeStatus, live.status);
}

/** Each object in its newest known version; the order and the selection are the caller's. */
export function useNewest<K extends Kind>(kind: K, objects: readonly Objects[K][] | undefined): readonly Objects[K][] {
  const state = useLiveState();
  const table = state[kind] as Table<K>;
  const why = state.why;
  return useMemo(() => {
    const newest = (objects ?? []).map((object) => table.get(keyOf[kind](object)) ?? object);
    if (kind !== "job") return newest;
    return newest.map((job) => withWhy(why, job as Job) as Objects[K]);
  }, [kind, objects, table, why]);
}

/** One object in its newest known version. */
export function useNewestOne<K extends Kind>(kind: K, object: Objects[K] | undefined): Objects[K] | undefined {
  const one = useMemo(() => (object ? [object] : []), [object]);
  return useNewest(kind, one)[0];
}
