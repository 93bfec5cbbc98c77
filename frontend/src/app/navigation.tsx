import { Link, useRouterState } from "@tanstack/react-router";
import { Plus, Search } from "lucide-react";
import { useState } from "react";

import { type Area, areasOf, besides, isAt } from "@/app/places";
import { mayActAnywhere } from "@/components/roles";
import { useSession } from "@/components/session";
import { Button, buttonClass } from "@/ui/button";
import { KEYS, shownKeys } from "@/ui/keys";
import styles from "@/app/shell.module.css";

interface NavigationProps {
  onNavigate?: () => void;
  /** Opens the palette; the drawer of a small screen has none. */
  onSearch?: () => void;
}

export function Navigation({ onNavigate, onSearch }: NavigationProps) {
  const path = usePath();
  const me = useSession();
  const { all, operate } = areasOf(me);
  return (
    <>
      {mayActAnywhere(me) && (
        <Link to="/submit" className={buttonClass("primary")} onClick={onNavigate}>
          <Plus size={15} aria-hidden />
          Submit a job
        </Link>
      )}
      {onSearch && (
        <Button icon={<Search size={15} aria-hidden />} className={styles.search} onClick={onSearch}>
          Go to <kbd>{shownKeys(KEYS.everywhere.goTo)}</kbd>
        </Button>
      )}
      <nav aria-label="Main" className={styles.nav}>
        <Areas areas={all} path={path} onNavigate={onNavigate} />
        {operate.length > 0 && <Operate areas={operate} path={path} onNavigate={onNavigate} />}
      </nav>
    </>
  );
}

interface AreasProps {
  areas: readonly Area[];
  path: string;
  onNavigate: (() => void) | undefined;
}

function Areas({ areas, path, onNavigate }: AreasProps) {
  return areas.map((area) => {
    const { to, label, icon: Icon } = area;
    return (
      <Link
        key={to}
        to={to}
        className={styles.place}
        data-active={isAt(path, area) || undefined}
        aria-current={path === to ? "page" : isAt(path, area) ? "true" : undefined}
        onClick={onNavigate}
      >
        <Icon size={16} aria-hidden />
        {label}
      </Link>
    );
  });
}

/** The operators' pages, which can be folded away; the one that is open stays in sight. */
function Operate({ areas, path, onNavigate }: AreasProps) {
  const [isOpen, setOpen] = useState(true);
  const isThere = areas.some((area) => isAt(path, area));
  return (
    <details className={styles.fold} open={isOpen || isThere}>
      <summary
        onClick={(event) => {
          event.preventDefault();
          setOpen(!isOpen);
        }}
      >
        Operate
      </summary>
      <Areas areas={areas} path={path} onNavigate={onNavigate} />
    </details>
  );
}

/** Above a page, the other pages of its area. */
export function Beside() {
  const path = usePath();
  const pages = besides(useSession(), path);
  if (pages.length === 0) return null;
  return (
    <nav aria-label={`Pages of ${pages[0]?.label ?? ""}`} className={styles.beside}>
      {pages.map(({ to, label }) => (
        <Link key={to} to={to} aria-current={path === to ? "page" : undefined}>
          {label}
        </Link>
      ))}
    </nav>
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

function usePath(): string {
  return useRouterState({ select: (state) => state.location.pathname });
}
