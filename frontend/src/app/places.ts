/** The pages that a user can open from every page: areas in the navigation, and the pages of an area beside one another. */

import {
  Activity,
  CalendarDays,
  Contact,
  KeyRound,
  LayoutGrid,
  ListTree,
  type LucideIcon,
  Server,
  Timer,
  Users,
} from "lucide-react";

import type { Me } from "@/api/schema";
import { isAdminAnywhere, mayActAnywhere } from "@/components/roles";

interface PageAt {
  to: string;
  label: string;
  /** Whether a user may see it; every user may where it is left out. */
  isFor?: (me: Me) => boolean;
}

interface AreaOfPages extends PageAt {
  icon: LucideIcon;
  /** Its further pages. */
  pages?: readonly PageAt[];
}

const isOperator = (me: Me) => me.is_operator;

/** The entries of the navigation: six for each role. Operators have a group of their own below. */
const AREAS = [
  { to: "/", label: "Overview", icon: LayoutGrid },
  {
    to: "/jobs",
    label: "Jobs",
    icon: Activity,
    pages: [
      { to: "/failures", label: "Failures" },
      { to: "/throughputs", label: "Throughputs" },
      { to: "/events", label: "Events" },
    ],
  },
  {
    to: "/nodes",
    label: "Nodes",
    icon: Server,
    pages: [
      { to: "/cells", label: "Cells" },
      { to: "/sharing", label: "Sharing" },
    ],
  },
  { to: "/calendar", label: "Calendar", icon: CalendarDays },
  {
    to: "/virtual-clusters",
    label: "Virtual clusters",
    icon: ListTree,
    pages: [
      { to: "/market", label: "Market" },
      { to: "/ledger", label: "Ledger" },
    ],
  },
  {
    to: "/tenants",
    label: "Tenants",
    icon: Users,
    pages: [
      { to: "/usage", label: "Usage" },
      { to: "/audit", label: "Audit log", isFor: isAdminAnywhere },
    ],
  },
] as const satisfies readonly AreaOfPages[];

// Rounds show all tenants' jobs; users and tokens are those of the whole platform.
const OPERATE = [
  { to: "/users", label: "Users", icon: Contact, isFor: isOperator },
  { to: "/rounds", label: "Rounds", icon: Timer, isFor: isOperator },
  { to: "/tokens", label: "API tokens", icon: KeyRound, isFor: isOperator },
] as const satisfies readonly AreaOfPages[];

/** What has a place of its own beside the navigation. */
const BESIDE = [
  { to: "/submit", label: "Submit a job", isFor: mayActAnywhere },
  { to: "/account", label: "Account" },
] as const satisfies readonly PageAt[];

export type Area = (typeof AREAS)[number] | (typeof OPERATE)[number];
export type Place = Area | Extract<Area, { pages: readonly unknown[] }>["pages"][number] | (typeof BESIDE)[number];

const isSeen = (me: Me) => (page: Place) => !("isFor" in page) || page.isFor(me);

/** Return the entries of the navigation: those of every user, and those of operators. */
export function areasOf(me: Me): { all: readonly Area[]; operate: readonly Area[] } {
  return { all: AREAS, operate: OPERATE.filter(isSeen(me)) };
}

/** Return the pages of the area that a page of this address belongs to, its first one included; none where it has one only. */
export function besides(me: Me, path: string): readonly Place[] {
  const area = AREAS.find((one) => pagesOf(one).some(({ to }) => to === path));
  const pages = area ? pagesOf(area).filter(isSeen(me)) : [];
  return pages.length > 1 ? pages : [];
}

/** Return every page that a user can open from every page. */
export function placesOf(me: Me): readonly Place[] {
  return [...[...AREAS, ...OPERATE].flatMap(pagesOf), ...BESIDE].filter(isSeen(me));
}

function pagesOf(area: Area): readonly Place[] {
  return "pages" in area ? [area, ...area.pages] : [area];
}

/** Whether an address belongs to an area: it is one of its pages, or below one. */
export function isAt(path: string, area: Area): boolean {
  return pagesOf(area).some(({ to }) => path === to || (to !== "/" && path.startsWith(`${to}/`)));
}
