/** The pages that a person can go to from anywhere, by what they are there for. */

import {
  Activity,
  BookOpen,
  Boxes,
  CalendarDays,
  ChartPie,
  Contact,
  FileClock,
  Gauge,
  Handshake,
  KeyRound,
  LayoutGrid,
  ListTree,
  type LucideIcon,
  ScrollText,
  Server,
  ShieldAlert,
  Timer,
  UserRound,
  Users,
} from "lucide-react";

import type { Me } from "@/api/schema";

/** What one does every day, what one looks up now and then, and what runs the platform. */
export type Group = "daily" | "more" | "operate";

interface Where {
  to: string;
  label: string;
  icon: LucideIcon;
  group: Group;
  /** Who may see it; everybody where it is left out. */
  isFor?: (me: Me) => boolean;
}

const isOperator = (me: Me) => me.is_operator;
const isAdmin = (me: Me) => me.is_operator || me.tenants.some(({ role }) => role === "admin");

const PLACES = [
  { to: "/", label: "Overview", icon: LayoutGrid, group: "daily" },
  { to: "/jobs", label: "Jobs", icon: Activity, group: "daily" },
  { to: "/nodes", label: "Nodes", icon: Server, group: "daily" },
  { to: "/virtual-clusters", label: "Virtual clusters", icon: ListTree, group: "daily" },
  { to: "/failures", label: "Failures", icon: ShieldAlert, group: "daily" },
  { to: "/calendar", label: "Calendar", icon: CalendarDays, group: "daily" },
  { to: "/account", label: "Account", icon: UserRound, group: "daily" },
  { to: "/tenants", label: "Tenants", icon: Users, group: "more" },
  { to: "/cells", label: "Cells", icon: Boxes, group: "more" },
  { to: "/sharing", label: "Sharing", icon: ChartPie, group: "more" },
  { to: "/throughputs", label: "Throughputs", icon: Gauge, group: "more" },
  { to: "/market", label: "Market", icon: Handshake, group: "more" },
  { to: "/ledger", label: "Ledger", icon: BookOpen, group: "more" },
  { to: "/events", label: "Events", icon: ScrollText, group: "more" },
  { to: "/audit", label: "Audit log", icon: FileClock, group: "more", isFor: isAdmin },
  // Rounds tell of all tenants' jobs, users and tokens are everybody's.
  { to: "/users", label: "Users", icon: Contact, group: "operate", isFor: isOperator },
  { to: "/rounds", label: "Rounds", icon: Timer, group: "operate", isFor: isOperator },
  { to: "/tokens", label: "API tokens", icon: KeyRound, group: "operate", isFor: isOperator },
] as const satisfies readonly Where[];

export type Place = (typeof PLACES)[number];

export function placesOf(me: Me): Place[] {
  return PLACES.filter((place) => !("isFor" in place) || place.isFor(me));
}

/** Whether an address is the place's page, or one below it. */
export function isAt(path: string, { to }: Place): boolean {
  return path === to || (to !== "/" && path.startsWith(`${to}/`));
}
