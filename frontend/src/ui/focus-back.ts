import { useRef } from "react";

/** What lets a dialog give the focus back to what had it before: the library does so only where it has a trigger. */
export function useFocusBack() {
  const before = useRef<Element | null>(null);
  return {
    onOpenAutoFocus: () => {
      before.current = document.activeElement;
    },
    onCloseAutoFocus: (event: Event) => {
      event.preventDefault();
      // A page to which the dialog led has the focus already.
      const isFree = document.activeElement === document.body;
      if (isFree && before.current instanceof HTMLElement) before.current.focus();
    },
  };
}
