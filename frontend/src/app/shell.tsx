import { Outlet, useRouterState } from "@tanstack/react-router";
import { Dialog } from "radix-ui";
import { LogOut, Menu, X } from "lucide-react";
import { lazy, Suspense, useEffect, useRef, useState } from "react";

import { Brand, Navigation } from "@/app/navigation";
import { usePaletteKeys } from "@/app/keys";
import { useSession, useSignOut } from "@/components/session";
import { useConnectionStatus } from "@/live/live";
import { IconButton } from "@/ui/button";
import styles from "@/app/shell.module.css";

const Palette = lazy(async () => ({ default: (await import("@/app/palette")).Palette }));
const Tour = lazy(async () => ({ default: (await import("@/app/tour/tour")).Tour }));

/** The frame of every page: navigation, who is signed in, whether the page is live. */
export function Shell() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  const main = useRef<HTMLElement>(null);
  const arrived = useRef(false);
  const [isSearching, setSearching] = useState(false);
  // At first it is offered on the overview: a page that was asked for by its address stays in sight.
  const isNew = !useSession().saw_tour;
  const [tour, setTour] = useState<"offered" | "open" | "closed">(isNew ? "offered" : "closed");
  const isTouring = tour === "open" || (tour === "offered" && path === "/");
  usePaletteKeys(() => setSearching(true));
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
        <Navigation onSearch={() => setSearching(true)} onTour={() => setTour("open")} />
        <Who />
      </aside>
      <header className={styles.top}>
        <Brand />
        <div className={styles.topEnd}>
          <ConnectionMark />
          <Drawer onTour={() => setTour("open")} />
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1} className={styles.main}>
        <Outlet />
      </main>
      {isSearching && (
        <Suspense fallback={null}>
          <Palette onClose={() => setSearching(false)} />
        </Suspense>
      )}
      {isTouring && (
        <Suspense fallback={null}>
          <Tour onClose={() => setTour("closed")} />
        </Suspense>
      )}
    </div>
  );
}

function Drawer({ onTour }: { onTour: () => void }) {
  const [open, setOpen] = useState(false);
  return (
    <Dialog.Root open={open} onOpenChange={setOpen}>
      <Dialog.Trigger asChild>
        <IconButton label="Menu" icon={<Menu size={20} />} />
      </Dialog.Trigger>
      <Dialog.Portal>
        <Dialog.Overlay className={styles.veil} />
        <Dialog.Content className={styles.drawer} aria-describedby={undefined}>
          <div className={styles.drawerHead}>
            <Dialog.Title>Menu</Dialog.Title>
            <Dialog.Close asChild>
              <IconButton label="Close" icon={<X size={18} />} />
            </Dialog.Close>
          </div>
          <Navigation onNavigate={() => setOpen(false)} onTour={onTour} />
          <Who />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Who() {
  const me = useSession();
  const signOut = useSignOut();
  return (
    <div className={styles.who}>
      <ConnectionMark />
      <div className={styles.user}>
        <div>
          <strong>{me.user.username}</strong>
          <span>{me.is_operator ? "Operator" : me.tenants.map((tenant) => tenant.name).join(", ")}</span>
        </div>
        <IconButton label="Sign out" icon={<LogOut size={16} />} onClick={() => signOut()} />
      </div>
    </div>
  );
}

const CONNECTION_TEXT = {
  live: "Live",
  connecting: "Connecting",
  offline: "Offline, retrying",
};

function ConnectionMark() {
  const status = useConnectionStatus();
  return (
    <span className={styles.connection} data-status={status} role="status">
      {CONNECTION_TEXT[status]}
    </span>
  );
}
