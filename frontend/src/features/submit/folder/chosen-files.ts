/** What of a chosen folder travels: as `allot submit --upload` decides (docs/code.md). */

import ignore, { type Ignore } from "ignore";

import { bytes } from "@/components/format";

export interface ChosenFile {
  /** Inside the folder, as a/b.py. */
  name: string;
  file: File;
}

const IGNORE_FILES = [".gitignore", ".allotignore"];
export const MOST_BYTES = 256 * 2 ** 20;
export const MOST_FILES = 100_000;
const LARGEST_SHOWN = 3;

/** The name of the folder, and of its files those that no ignore file leaves out, in the order of their names. */
export async function chosenFiles(list: Iterable<File>): Promise<{ folder: string; files: ChosenFile[] }> {
  const all = [...list].map((file) => {
    const [folder, ...rest] = file.webkitRelativePath.split("/");
    return { folder: folder ?? "", name: rest.join("/"), file };
  });
  const rules = await rulesOf(all);
  const isOut = remembered((path: string) => isLeftOut(path, rules));
  const files = all.filter(({ name }) => !foldersOf(name).some(isOut) && !isOut(name));
  files.sort((one, other) => (one.name < other.name ? -1 : 1));
  requireRightSize(files);
  return { folder: all[0]?.folder ?? "", files };
}

/** The ignore files of a folder, in the order in which they count. */
interface Rules {
  /** Its path, empty or with a / at its end. */
  base: string;
  patterns: Ignore;
}

async function rulesOf(all: readonly ChosenFile[]): Promise<Rules[]> {
  const depth = (name: string) => name.split("/").length;
  const found = all.filter(({ name }) => IGNORE_FILES.includes(lastOf(name)));
  found.sort(
    (one, other) =>
      depth(one.name) - depth(other.name) ||
      IGNORE_FILES.indexOf(lastOf(one.name)) - IGNORE_FILES.indexOf(lastOf(other.name)),
  );
  return Promise.all(
    found.map(async ({ name, file }) => ({
      base: name.slice(0, name.length - lastOf(name).length),
      patterns: ignore({ ignorecase: false }).add(await file.text()),
    })),
  );
}

/** The last file that says something of a path decides; a folder's path ends with a /. */
function isLeftOut(path: string, rules: readonly Rules[]): boolean {
  if (lastOf(path.replace(/\/$/, "")) === ".git") return true;
  for (const { base, patterns } of rules.toReversed()) {
    if (!path.startsWith(base) || path === base) continue;
    const { ignored, unignored } = patterns.test(path.slice(base.length));
    if (ignored || unignored) return ignored;
  }
  return false;
}

function foldersOf(name: string): string[] {
  const parts = name.split("/").slice(0, -1);
  return parts.map((_, place) => `${parts.slice(0, place + 1).join("/")}/`);
}

function lastOf(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1);
}

function remembered(decide: (path: string) => boolean): (path: string) => boolean {
  const known = new Map<string, boolean>();
  return (path) => {
    const before = known.get(path);
    if (before !== undefined) return before;
    const decided = decide(path);
    known.set(path, decided);
    return decided;
  };
}

function requireRightSize(files: readonly ChosenFile[]): void {
  if (files.length === 0)
    throw new Error("There is nothing to upload: the folder is empty, or the ignore files exclude every file.");
  if (files.length > MOST_FILES) {
    throw new Error(
      `${files.length.toLocaleString("en")} files are more than ${MOST_FILES.toLocaleString("en")}.` +
        " List in .allotignore what the job does not need.",
    );
  }
  const total = files.reduce((sum, { file }) => sum + file.size, 0);
  if (total <= MOST_BYTES) return;
  const largest = [...files].sort((one, other) => other.file.size - one.file.size).slice(0, LARGEST_SHOWN);
  const named = largest.map(({ name, file }) => `${name} (${bytes(file.size)})`).join(", ");
  throw new Error(
    `The files have ${bytes(total)}, more than ${bytes(MOST_BYTES)}. List in .allotignore what the job does not` +
      ` need. The largest are ${named}.`,
  );
}
