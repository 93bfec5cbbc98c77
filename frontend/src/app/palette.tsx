import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useId, useState } from "react";

import { type Found as Things, searchQuery } from "@/api/search-queries";
import { placesOf } from "@/app/places";
import { useSession } from "@/components/session";
import { useTypingPause } from "@/components/typing";
import { Dialog } from "@/ui/dialog";
import { TextInput } from "@/ui/field";
import { KEYS, pressed, shownKeys } from "@/ui/keys";
import styles from "@/app/palette.module.css";

interface Found {
  /** What kind of thing it is. */
  kind: string;
  label: string;
  to: string;
  search?: Record<string, string>;
  hash?: string;
}

/** Goes to a page, job, node, tenant, user or virtual cluster by letters of its name, or to a job by its number. */
export function Palette({ onClose }: { onClose: () => void }) {
  const list = useId();
  const navigate = useNavigate();
  const [typed, setTyped] = useState("");
  const [at, setAt] = useState(0);
  const { found, isSearching } = useFound(typed);
  const chosen = found[Math.min(at, found.length - 1)];
  const go = (one: Found | undefined) => {
    if (one === undefined) return;
    onClose();
    void navigate({ to: one.to, search: one.search ?? {}, hash: one.hash ?? "" });
  };
  const move = (step: number) => {
    if (found.length === 0) return;
    const next = (Math.min(at, found.length - 1) + step + found.length) % found.length;
    setAt(next);
    document.getElementById(`${list}-${next}`)?.scrollIntoView({ block: "nearest" });
  };
  return (
    <Dialog open onClose={onClose} title="Go to">
      <TextInput
        type="search"
        role="combobox"
        aria-label="Page, job, node, tenant, user or virtual cluster"
        aria-expanded
        aria-controls={list}
        aria-activedescendant={chosen && `${list}-${found.indexOf(chosen)}`}
        placeholder="A page, a name, or the number of a job"
        autoFocus
        value={typed}
        onChange={(event) => {
          setTyped(event.target.value);
          setAt(0);
        }}
        onKeyDown={(event) => {
          const key = pressed("list", event);
          if (key === undefined) return;
          event.preventDefault();
          if (key === "open") go(chosen);
          else move(key === "next" ? 1 : -1);
        }}
      />
      <ul id={list} role="listbox" aria-label="Found" className={styles.found}>
        {found.map((one, index) => (
          <li
            key={`${one.kind} ${one.label} ${one.to}`}
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
      {found.length === 0 && (
        <p role="status" className={styles.none}>
          {isSearching ? "Searching" : "Nothing has this name."}
        </p>
      )}
      <p className={styles.keys}>
        <kbd>{shownKeys(KEYS.list.previous)}</kbd> <kbd>{shownKeys(KEYS.list.next)}</kbd> choose,{" "}
        <kbd>{shownKeys(KEYS.list.open)}</kbd> opens, <kbd>{shownKeys(KEYS.everywhere.close)}</kbd> closes. On a page,{" "}
        <kbd>{shownKeys(KEYS.everywhere.help)}</kbd> shows every key.
      </p>
    </Dialog>
  );
}

function useFound(typed: string): { found: Found[]; isSearching: boolean } {
  const me = useSession();
  const [asked, setAsked] = useState("");
  const text = typed.trim();
  useTypingPause(text, setAsked);
  const query = useQuery(searchQuery(asked, me));
  const has = ({ label }: Found) => label.toLowerCase().includes(text.toLowerCase());
  const pages = placesOf(me).map(({ to, label }) => ({ kind: "page", label, to }));
  if (text === "") return { found: pages, isSearching: false };
  const number = /^#?(\d{1,15})$/.exec(text)?.[1];
  const found = [
    ...(number ? [{ kind: "job", label: `Job #${number}`, to: `/jobs/${number}` }] : []),
    // What was found for the letters of before is shown as far as it has those of now.
    ...[...pages, ...(query.data ? things(query.data) : [])].filter(has),
  ];
  return { found, isSearching: asked !== text || query.isFetching };
}

function things({ jobs, nodes, clusters, tenants, users }: Things): Found[] {
  const titled = ({ name, title }: { name: string; title?: string }) => (title ? `${title} (${name})` : name);
  const at = (part: string, name: string) => `/${part}/${encodeURIComponent(name)}`;
  return [
    ...jobs.map(({ id, name }) => ({ kind: `job #${id}`, label: name, to: at("jobs", String(id)) })),
    ...nodes.map(({ name }) => ({ kind: "node", label: name, to: at("nodes", name) })),
    ...clusters.map((one) => ({
      kind: "virtual cluster",
      label: titled(one),
      to: "/virtual-clusters",
      hash: one.name,
    })),
    ...tenants.map((one) => ({ kind: "tenant", label: titled(one), to: at("tenants", one.name) })),
    ...users.map(({ username, tenant }) =>
      tenant === null
        ? { kind: "user", label: username, to: "/users", search: { q: username } }
        : { kind: `user, ${tenant}`, label: username, to: at("tenants", tenant) },
    ),
  ];
}
