import { Link } from "@tanstack/react-router";
import { LogOut, UserRound } from "lucide-react";

import { HelpMenu } from "@/app/help-menu";
import { useSession, useSignOut } from "@/components/session";
import { useConnectionStatus } from "@/live/live";
import { IconButton } from "@/ui/button";
import styles from "@/app/shell.module.css";

/** What the menu of help opens. */
export interface Help {
  onKeys: () => void;
  onTour: () => void;
}

/** Who is signed in, and whether the page is live. */
export function Who({ help, onLeave }: { help: Help; onLeave?: () => void }) {
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

/** Whether the page is live. */
export function ConnectionMark() {
  const status = useConnectionStatus();
  return (
    <span className={styles.connection} data-status={status} role="status">
      {CONNECTION_TEXT[status]}
    </span>
  );
}
