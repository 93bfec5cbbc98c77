/** What waits until typing pauses. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useEffectEvent, useState } from "react";

const TYPING_PAUSE_MS = 350;

/** Calls `act` with what was typed once it has stayed the same for a moment. */
export function useTypingPause<T>(typed: T, act: (typed: T) => void): void {
  const paused = useEffectEvent(act);
  useEffect(() => {
    const timer = setTimeout(() => paused(typed), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed]);
}

/**
 * Asks the server about a document whenever typing pauses; about none while it is null. `answer` is for exactly what
 * stands there now and null while it is awaited, `newest` perhaps for what stood there a moment ago.
 */
export function useTypedCheck<Document extends object, Answer>(
  kind: readonly string[],
  document: Document | null,
  ask: (document: Document, signal: AbortSignal) => Promise<Answer>,
): { answer: Answer | null; newest: Answer | undefined; error: Error | null } {
  const now = document && JSON.stringify(document);
  const [asked, setAsked] = useState(now);
  useTypingPause(now, setAsked);
  const query = useQuery({
    queryKey: [...kind, asked],
    queryFn: ({ signal }) => ask(JSON.parse(asked ?? "{}") as Document, signal),
    enabled: asked !== null,
    placeholderData: keepPreviousData,
    retry: false,
    // Running jobs and what is free change.
    staleTime: 5_000,
    gcTime: 30_000,
  });
  const isCurrent = asked === now && !query.isPlaceholderData;
  return { answer: isCurrent ? (query.data ?? null) : null, newest: query.data, error: query.error };
}
