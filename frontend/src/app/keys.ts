/** Keys that mean the same on every page. */

import { useEffect, useEffectEvent } from "react";

import { isTyping, pressed } from "@/ui/keys";

interface Acts {
  goTo: () => void;
  help: () => void;
}

/** Acts on the keys of every page; while a user types, only on those with Ctrl. */
export function usePageKeys({ goTo, help }: Acts): void {
  const act = useEffectEvent((event: KeyboardEvent) => {
    const key = pressed("everywhere", event);
    if (key === undefined || (key !== "goTo" && isTyping(event.target))) return;
    if (key === "goTo") goTo();
    else if (key === "help") help();
    else if (key === "search") search(goTo);
    // A dialog, a menu and the tour close themselves.
    else return;
    event.preventDefault();
  });
  useEffect(() => {
    const listener = (event: KeyboardEvent) => act(event);
    window.addEventListener("keydown", listener);
    return () => window.removeEventListener("keydown", listener);
  }, []);
}

/** Put the focus into the search field of the page; `otherwise` where it has none. */
function search(otherwise: () => void): void {
  // A page in a dialog has its own.
  if (document.querySelector("[role=dialog], [role=alertdialog]")) return;
  const field = document.querySelector<HTMLInputElement>("main input[type=search]");
  if (field) field.focus();
  else otherwise();
}
