import { useSyncExternalStore } from "react";

/** The width up to which styles put things below each other that else are side by side. */
const narrow = window.matchMedia("(max-width: 48rem)");

function subscribe(listener: () => void): () => void {
  narrow.addEventListener("change", listener);
  return () => narrow.removeEventListener("change", listener);
}

/** Whether the window is as narrow as a phone's. */
export function useIsNarrow(): boolean {
  return useSyncExternalStore(subscribe, () => narrow.matches);
}
