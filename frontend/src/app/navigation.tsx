import { Link, useRouterState } from "@tanstack/react-router";
import { CircleHelp, Footprints, Plus, Search } from "lucide-react";
import { useState } from "react";

import { helpFor } from "@/app/help";
import { isAt, type Place, placesOf } from "@/app/places";
import { useSession } from "@/components/session";
import { Button, buttonClass } from "@/ui/button";
import styles from "@/app/shell.module.css";

interface NavigationProps {
  onNavigate?: () => void;
  /** Opens the palette; the drawer of a small screen has none. */
  onSearch?: () => void;
  onTour: () => void;
}

export function Navigation({ onNavigate, onSearch, onTour }: NavigationProps) {
  const path = useRouterState({ select: (state) => state.location.pathname });
  const places = placesOf(useSession());
  const of = (group: Place["group"]) => places.filter((place) => place.group === group);
  const operate = of("operate");
  return (
    <>
      <Link to="/submit" className={buttonClass("primary")} onClick={onNavigate}>
        <Plus size={15} aria-hidden />
        Submit a job
      </Link>
      {onSearch && (
        <Button icon={<Search size={15} aria-hidden />} className={styles.search} onClick={onSearch}>
          Go to <kbd>Ctrl K</kbd>
        </Button>
      )}
      <nav aria-label="Main" className={styles.nav}>
        <Places places={of("daily")} onNavigate={onNavigate} />
        <Fold title="More" places={of("more")} path={path} onNavigate={onNavigate} />
        {operate.length > 0 && (
          <Fold title="Operate" places={operate} path={path} isOpenAtFirst onNavigate={onNavigate} />
        )}
        <a href={helpFor(path)} target="_blank" rel="noreferrer" className={styles.place} onClick={onNavigate}>
          <CircleHelp size={16} aria-hidden />
          Help
        </a>
        <button
          type="button"
          className={styles.place}
          onClick={() => {
            onNavigate?.();
            onTour();
          }}
        >
          <Footprints size={16} aria-hidden />
          Tour
        </button>
      </nav>
    </>
  );
}

interface PlacesProps {
  places: readonly Place[];
  onNavigate: (() => void) | undefined;
}

function Places({ places, onNavigate }: PlacesProps) {
  return places.map(({ to, label, icon: Icon }) => (
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
  ));
}

interface FoldProps extends PlacesProps {
  title: string;
  path: string;
  isOpenAtFirst?: boolean;
}

/** Places that can be folded away; the one that is open stays in sight. */
function Fold({ title, places, path, isOpenAtFirst = false, onNavigate }: FoldProps) {
  const [isOpen, setOpen] = useState(isOpenAtFirst);
  const isThere = places.some((place) => isAt(path, place));
  return (
    <details className={styles.fold} open={isOpen || isThere}>
      <summary
        onClick={(event) => {
          event.preventDefault();
          setOpen(!isOpen);
        }}
      >
        {title}
      </summary>
      <Places places={places} onNavigate={onNavigate} />
    </details>
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
