/** Every key that the dashboard has: handlers ask this table which key was pressed, and the keyboard help is drawn from it. */

/** Where keys are of use. */
export const KEY_GROUPS = {
  everywhere: "On every page",
  list: "In tables and lists",
  map: "On the map of GPUs",
  tree: "In the tree of cells",
  log: "In the search of a log",
  field: "In a field of the cell editor or of a trial",
  editor: "In the editor of a job's YAML",
} as const;

type Group = keyof typeof KEY_GROUPS;

interface Key {
  /** The names of the keys as browsers report them; each means the same. */
  keys: readonly string[];
  withControl?: true;
  withShift?: true;
  /** What it does, as one reads it in the help. */
  does: string;
}

export const KEYS = {
  everywhere: {
    goTo: { keys: ["k"], withControl: true, does: "Go to a page, job, node, tenant, user or virtual cluster" },
    search: { keys: ["/"], does: "Search on this page; where it has no search field, go to a page" },
    help: { keys: ["?"], does: "Show these keys" },
    close: { keys: ["Escape"], does: "Close a dialog, a menu or the tour" },
  },
  list: {
    previous: { keys: ["ArrowUp"], does: "Previous row" },
    next: { keys: ["ArrowDown"], does: "Next row" },
    open: { keys: ["Enter"], does: "Open the row" },
  },
  map: {
    move: { keys: ["ArrowLeft", "ArrowUp", "ArrowDown", "ArrowRight"], does: "Next GPU in this direction" },
    open: { keys: ["Enter"], does: "Open the job on the GPU, or its node" },
    leave: { keys: ["Escape"], does: "Point at no GPU" },
  },
  tree: {
    previous: { keys: ["ArrowUp"], does: "Previous cell" },
    next: { keys: ["ArrowDown"], does: "Next cell" },
    first: { keys: ["Home"], does: "First cell" },
    last: { keys: ["End"], does: "Last cell" },
    unfold: { keys: ["ArrowRight"], does: "Unfold the cell, or go to its first part" },
    fold: { keys: ["ArrowLeft"], does: "Fold the cell, or go to the cell that it is a part of" },
    open: { keys: ["Enter", " "], does: "Open the node, or show more cells" },
  },
  log: {
    next: { keys: ["Enter"], does: "Next match" },
    previous: { keys: ["Enter"], withShift: true, does: "Previous match" },
    clear: { keys: ["Escape"], does: "Clear the search" },
  },
  field: {
    take: { keys: ["Enter"], does: "Take what is typed" },
  },
  editor: {
    newLine: { keys: ["Enter"], does: "New line, indented as this one" },
    undo: { keys: ["z"], withControl: true, does: "Undo" },
    redo: { keys: ["y"], withControl: true, does: "Redo" },
  },
} as const satisfies Record<Group, Record<string, Key>>;

/** Return every key, by where it is of use. */
export function groupsOfKeys(): { where: string; keys: Key[] }[] {
  return Object.entries(KEYS).map(([group, keys]) => ({
    where: KEY_GROUPS[group as Group],
    keys: Object.values<Key>(keys),
  }));
}

interface Pressed {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  shiftKey: boolean;
}

/** Return the name of the key of a group that was pressed; undefined where the group has no such key. */
export function pressed<G extends Group>(group: G, event: Pressed): keyof (typeof KEYS)[G] | undefined {
  const isControl = event.ctrlKey || event.metaKey;
  // Of a key with and one without Shift, the exact one.
  const found = (Object.entries(KEYS[group]) as [string, Key][])
    .filter(([, key]) => (key.withControl ?? false) === isControl && key.keys.includes(nameOf(event.key)))
    .sort(([, one], [, other]) => fits(other, event) - fits(one, event))[0];
  return found?.[0] as keyof (typeof KEYS)[G] | undefined;
}

function fits({ withShift }: Key, { shiftKey }: Pressed): number {
  return Number((withShift ?? false) === shiftKey);
}

/** A letter is the same key in upper case. */
function nameOf(key: string): string {
  return key.length === 1 ? key.toLowerCase() : key;
}

const SHOWN: Readonly<Record<string, string>> = {
  ArrowLeft: "\u2190",
  ArrowUp: "\u2191",
  ArrowDown: "\u2193",
  ArrowRight: "\u2192",
  Escape: "Esc",
  " ": "Space",
};

/** Return the keys as the help shows them, such as "Ctrl K"; each means the same. */
export function shownKeys({ keys, withControl, withShift }: Key): string[] {
  const before = [...(withControl ? ["Ctrl"] : []), ...(withShift ? ["Shift"] : [])];
  return keys.map((key) => [...before, SHOWN[key] ?? (key.length === 1 ? key.toUpperCase() : key)].join(" "));
}

/** Whether a key press writes into a field, so that it means a letter there and nothing to the page. */
export function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable]") !== null;
}
