import { Link, Outlet, useRouterState } from "@tanstack/react-router";
import { Dialog } from "radix-ui";
import { LogOut, Menu, UserRound, X } from "lucide-react";
import { lazy, Suspense, useEffect, useRef, useState } from "react";

import { HelpMenu } from "@/app/help-menu";
import { usePageKeys } from "@/app/keys";
import { Beside, Brand, Navigation } from "@/app/navigation";
import { useSession, useSignOut } from "@/components/session";
import { useConnectionStatus } from "@/live/live";
import { IconButton } from "@/ui/button";
import styles from "@/app/shell.module.css";

const Palette = lazy(async () => ({ default: (await import("@/app/palette")).Palette }));
const KeyboardHelp = lazy(async () => ({ default: (await import("@/app/keyboard-help")).KeyboardHelp }));
const Tour = lazy(async () => ({ default: (await import("@/app/tour/tour")).Tour }));

/** The frame of every page: navigation, who is signed in, whether the page is live. */
export function Shell() {
  const path = useRouterState({ select: (state) => state.location.pathname });
  const main = useRef<HTMLElement>(null);
  const arrived = useRef(false);
  const [opened, open] = useState<"palette" | "keys" | null>(null);
  // At first it is offered on the overview: a page that was asked for by its address stays in sight.
  const isNew = !useSession().saw_tour;
  const [tour, setTour] = useState<"offered" | "open" | "closed">(isNew ? "offered" : "closed");
  const isTouring = tour === "open" || (tour === "offered" && path === "/");
  usePageKeys({ goTo: () => open("palette"), help: () => open("keys") });
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
          <Drawer help={help} />
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1} className={styles.main}>
        <Beside />
        <Outlet />
      </main>
      {opened && (
        <Suspense fallback={null}>
          {opened === "palette" ? <Palette onClose={() => open(null)} /> : <KeyboardHelp onClose={() => open(null)} />}
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

/** What the menu of help opens. */
interface Help {
  onKeys: () => void;
  onTour: () => void;
}

function Drawer({ help }: { help: Help }) {
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
          <Navigation onNavigate={() => setOpen(false)} />
          <Who help={help} onLeave={() => setOpen(false)} />
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}

function Who({ help, onLeave }: { help: Help; onLeave?: () => void }) {
  const me = useSession();
  const signOut = useSignOut();
  return (
    <div className={styles.who}>
      <ConnectionMark />
      <div className={styles.user}>
        <Link to="/account" title="Account" className={styles.account} onClick={onLeave}>
          <UserRound size={16} aria-hidden />
          <span>
            <span className="visually-hidden">Account of </span>
            <strong>{me.user.username}</strong>{" "}
            <small>{me.is_operator ? "Operator" : me.tenants.map((tenant) => tenant.name).join(", ")}</small>
          </span>
        </Link>
        <HelpMenu {...help} {...(onLeave && { onChoose: onLeave })} />
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
