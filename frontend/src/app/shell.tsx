import { Outlet, useRouterState } from "@tanstack/react-router";
import { Menu } from "lucide-react";
import { useEffect, useRef, useState } from "react";

import { usePageKeys } from "@/app/keys";
import { Beside, Brand, Navigation } from "@/app/navigation";
import { ConnectionMark, Who } from "@/app/who";
import { useSession } from "@/components/session";
import { IconButton } from "@/ui/button";
import { onDemand } from "@/ui/on-demand";
import styles from "@/app/shell.module.css";

const Drawer = onDemand(async () => (await import("@/app/drawer")).Drawer);
const Palette = onDemand(async () => (await import("@/app/palette")).Palette);
const KeyboardHelp = onDemand(async () => (await import("@/app/keyboard-help")).KeyboardHelp);
const Tour = onDemand(async () => (await import("@/app/tour/tour")).Tour);

/** The frame of every page: navigation, who is signed in, whether the page is live. */
export function Shell() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  const main = useRef<HTMLElement>(null);
  const arrived = useRef(false);
  const [opened, open] = useState<"menu" | "palette" | "keys" | null>(null);
  // At first it is offered on the overview: a page that was asked for by its address stays in sight.
  const isNew = !useSession().saw_tour;
  const [tour, setTour] = useState<"offered" | "open" | "closed">(isNew ? "offered" : "closed");
  const isTouring = tour === "open" || (tour === "offered" && path === "/");
  usePageKeys({ goTo: () => open("palette"), help: () => open("keys") });
  const close = () => open(null);
  const help = { onKeys: () => open("keys"), onTour: () => setTour("open") };
  // A new page starts at its top, and keyboard and screen reader users start in it.
  useEffect(() => {
    window.scrollTo(0, 0);
    if (arrived.current) main.current?.focus({ preventScroll: true });
    arrived.current = true;
  }, [path]);
  return (
    <div className={styles.shell}>
      <a href="#main" className={styles.skip}>
        Skip to content
      </a>
      <aside className={styles.side}>
        <Brand />
        <Navigation onSearch={() => open("palette")} />
        <Who help={help} />
      </aside>
      <header className={styles.top}>
        <Brand />
        <div className={styles.topEnd}>
          <ConnectionMark />
          <IconButton
            label="Menu"
            icon={<Menu size={20} />}
            aria-haspopup="dialog"
            aria-expanded={opened === "menu"}
            onClick={() => open("menu")}
          />
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1} className={styles.main}>
        <Beside />
        <Outlet />
      </main>
      {opened === "menu" && <Drawer help={help} onClose={close} />}
      {opened === "palette" && <Palette onClose={close} />}
      {opened === "keys" && <KeyboardHelp onClose={close} />}
      {isTouring && <Tour onClose={() => setTour("closed")} />}
    </div>
  );
}
