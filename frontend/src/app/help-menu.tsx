import { useRouterState } from "@tanstack/react-router";
import { CircleHelp } from "lucide-react";
import { useId, useRef } from "react";

import { helpFor } from "@/app/help";
import { IconButton } from "@/ui/button";
import styles from "@/app/help-menu.module.css";

interface HelpMenuProps {
  /** Shows every key. */
  onKeys: () => void;
  onTour: () => void;
  /** After a choice, such as to close the drawer that the menu is in. */
  onChoose?: () => void;
}

/** What helps: the documentation of the page, all of it, its glossary, the keys and the tour. */
export function HelpMenu({ onKeys, onTour, onChoose }: HelpMenuProps) {
  const id = useId();
  const menu = useRef<HTMLDivElement>(null);
  const path = useRouterState({ select: (state) => state.location.pathname });
  const choose = (act?: () => void) => () => {
    menu.current?.hidePopover();
    onChoose?.();
    act?.();
  };
  const link = (text: string, address: string) => (
    <a href={address} target="_blank" rel="noreferrer" onClick={choose()}>
      {text}
    </a>
  );
  return (
    <>
      <IconButton label="Help" icon={<CircleHelp size={16} />} popoverTarget={id} />
      <div ref={menu} id={id} popover="auto" role="group" aria-label="Help" className={styles.menu}>
        {link("Help for this page", helpFor(path))}
        {link("Documentation", "/docs/")}
        {link("Glossary", "/docs/glossary.html")}
        {link("REST API", "/api/docs")}
        <button type="button" onClick={choose(onKeys)}>
          Keyboard <kbd>?</kbd>
        </button>
        <button type="button" onClick={choose(onTour)}>
          Tour
        </button>
      </div>
    </>
  );
}
