/** Keys that mean the same on every page. */

import { useEffect, useEffectEvent } from "react";

import { helpFor } from "@/app/help";

/** Ctrl-K opens the palette, "?" the help of the page, unless somebody is typing. */
export function usePaletteKeys(open: () => void): void {
  const act = useEffectEvent((event: KeyboardEvent) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
    } else if (event.key === "?" && !isTyping(event.target)) {
      window.open(helpFor(window.location.pathname), "_blank", "noreferrer");
    }
  });
  useEffect(() => {
    const listener = (event: KeyboardEvent) => act(event);
    window.addEventListener("keydown", listener);
    return () => window.removeEventListener("keydown", listener);
  }, []);
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]") !== null;
}
