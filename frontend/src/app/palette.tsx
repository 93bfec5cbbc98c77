import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";

import { jobsQuery, nodesQuery } from "@/api/queries";
import { placesOf } from "@/app/places";
import { useTypingPause } from "@/components/typing";
import { useSession } from "@/components/session";
import { Dialog } from "@/ui/dialog";
import { TextInput } from "@/ui/field";
import styles from "@/app/palette.module.css";

/** At most as many of a kind are listed; more letters find the others. */
const MOST = 6;

interface Found {
  /** What kind of thing it is. */
  kind: string;
  label: string;
  to: string;
}

/** Goes to a page, a job or a node by some letters of its name, or to a job by its number. */
export function Palette({ onClose }: { onClose: () => void }) {
  const list = useId();
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const found = useFound(typed);
  const chosen = found[Math.min(at, found.length - 1)];
  const go = (one: Found | undefined) => {
    if (one === undefined) return;
    onClose();
    void navigate({ to: one.to });
  };
  const move = (step: number) => setAt((now) => (Math.min(now, found.length - 1) + step + found.length) % found.length);
  return (
    <Dialog open onClose={onClose} title="Go to">
      <TextInput
        type="search"
        role="combobox"
        aria-label="Page, job or node"
        aria-expanded
        aria-controls={list}
        aria-activedescendant={chosen && `${list}-${found.indexOf(chosen)}`}
        placeholder="A page, the name or number of a job, a node"
        autoFocus
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            event.preventDefault();
            if (found.length > 0) move(event.key === "ArrowDown" ? 1 : -1);
          } else if (event.key === "Enter") {
            event.preventDefault();
            go(chosen);
          }
        }}
      />
      <ul id={list} role="listbox" aria-label="Found" className={styles.found}>
        {found.map((one, index) => (
          <li
            key={one.to}
            id={`${list}-${index}`}
            role="option"
            aria-selected={one === chosen}
            onMouseMove={() => setAt(index)}
            onClick={() => go(one)}
          >
            {one.label} <span>{one.kind}</span>
          </li>
        ))}
      </ul>
      {found.length === 0 && <p className={styles.none}>Nothing has this name.</p>}
      <p className={styles.keys}>
        <kbd>↑</kbd> <kbd>↓</kbd> choose, <kbd>Enter</kbd> opens, <kbd>Esc</kbd> closes. On a page, <kbd>?</kbd> opens
        its help.
      </p>
    </Dialog>
  );
}

function useFound(typed: string): Found[] {
  const me = useSession();
  const [asked, setAsked] = useState("");
  useTypingPause(typed.trim(), setAsked);
  const jobs = useQuery({ ...jobsQuery({ q: asked }, undefined, undefined), enabled: asked !== "" });
  const nodes = useQuery({ ...nodesQuery, enabled: typed.trim() !== "" });
  const wanted = typed.trim().toLowerCase();
  const has = (text: string) => text.toLowerCase().includes(wanted);
  const pages = placesOf(me).map(({ to, label }) => ({ kind: "page", label, to }));
  const all = [...pages, { kind: "page", label: "Submit a job", to: "/submit" }];
  if (wanted === "") return all;
  const number = /^#?(\d{1,15})$/.exec(wanted)?.[1];
  const named = (asked === "" ? [] : (jobs.data?.results ?? [])).filter(({ name }) => has(name));
  return [
    ...(number ? [{ kind: "job", label: `Job #${number}`, to: `/jobs/${number}` }] : []),
    ...all.filter(({ label }) => has(label)),
    ...named.slice(0, MOST).map(({ id, name }) => ({ kind: `job #${id}`, label: name, to: `/jobs/${id}` })),
    ...(nodes.data ?? [])
      .filter(({ name }) => has(name))
      .slice(0, MOST)
      .map(({ name }) => ({ kind: "node", label: name, to: `/nodes/${encodeURIComponent(name)}` })),
  ];
}
