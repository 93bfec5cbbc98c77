import { Link, useRouterState } from "@tanstack/react-router";
import {
  Activity,
  BookOpen,
  Boxes,
  ChartPie,
  CircleHelp,
  Contact,
  FileClock,
  Gauge,
  Handshake,
  KeyRound,
  LayoutGrid,
  ListTree,
  Plus,
  ScrollText,
  Server,
  ShieldAlert,
  Timer,
  UserRound,
  Users,
} from "lucide-react";

import { helpFor } from "@/app/help";
import { useSession } from "@/components/session";
import { buttonClass } from "@/ui/button";
import styles from "@/app/shell.module.css";

/** Rounds tell of all tenants' jobs, users and tokens are everybody's: these are for operators. The audit log is for admins of tenants, too. */
const OPERATORS_PLACES: readonly string[] = ["/rounds", "/users", "/tokens"];
const PLACES = [
  { to: "/", label: "Overview", icon: LayoutGrid },
  { to: "/jobs", label: "Jobs", icon: Activity },
  { to: "/nodes", label: "Nodes", icon: Server },
  { to: "/virtual-clusters", label: "Virtual clusters", icon: ListTree },
  { to: "/cells", label: "Cells", icon: Boxes },
  { to: "/sharing", label: "Sharing", icon: ChartPie },
  { to: "/market", label: "Market", icon: Handshake },
  { to: "/ledger", label: "Ledger", icon: BookOpen },
  { to: "/throughputs", label: "Throughputs", icon: Gauge },
  { to: "/failures", label: "Failures", icon: ShieldAlert },
  { to: "/tenants", label: "Tenants", icon: Users },
  { to: "/users", label: "Users", icon: Contact },
  { to: "/rounds", label: "Rounds", icon: Timer },
  { to: "/events", label: "Events", icon: ScrollText },
  { to: "/audit", label: "Audit log", icon: FileClock },
  { to: "/tokens", label: "API tokens", icon: KeyRound },
  { to: "/account", label: "Account", icon: UserRound },
] as const;

export function Navigation({ onNavigate }: { onNavigate?: () => void }) {
  const me = useSession();
  const path = useRouterState({ select: (state) => state.location.pathname });
  const isAdmin = me.tenants.some(({ role }) => role === "admin");
  const maySee = (to: string) => me.is_operator || (to === "/audit" ? isAdmin : !OPERATORS_PLACES.includes(to));
  return (
    <>
      <Link to="/submit" className={buttonClass("primary")} onClick={onNavigate}>
        <Plus size={15} aria-hidden />
        Submit a job
      </Link>
      <nav aria-label="Main" className={styles.nav}>
        {PLACES.filter(({ to }) => maySee(to)).map(({ to, label, icon: Icon }) => (
          <Link
            key={to}
            to={to}
            className={styles.place}
            activeProps={{ "data-active": "", "aria-current": "page" }}
            activeOptions={{ exact: to === "/", includeSearch: false }}
            onClick={onNavigate}
          >
            <Icon size={16} aria-hidden />
            {label}
          </Link>
        ))}
        <a href={helpFor(path)} target="_blank" rel="noreferrer" className={styles.place} onClick={onNavigate}>
          <CircleHelp size={16} aria-hidden />
          Help
        </a>
      </nav>
    </>
  );
}

export function Brand() {
  return (
    <Link to="/" className={styles.brand}>
      <img src={`${import.meta.env.BASE_URL}mark.svg`} alt="" width={24} height={24} />
      <span>Allotment</span>
    </Link>
  );
}
