/** Where a problem that the server names stands: at which control, and at which line of the text. Pure. */

import type { FieldProblem } from "@/api/schema";
import type { Path } from "@/components/yaml/document";

/** One sentence: what is wrong, and what would be right. */
export function sentenceOf({ problem, expected }: Pick<FieldProblem, "problem" | "expected">): string {
  return expected ? `${problem}; expected ${expected}` : problem;
}

/** What is wrong with the value of one control, or with a part of it that has no control of its own. */
export function problemAt(problems: readonly FieldProblem[], field: string, withParts = false): string | undefined {
  const found = problems.find((each) => each.field === field || (withParts && isPartOf(each.field, field)));
  return found && sentenceOf(found);
}

function isPartOf(part: string, whole: string): boolean {
  return part.startsWith(`${whole}.`) || part.startsWith(`${whole}[`);
}

/**
 * Which of the controls' fields is the one of a problem, or the nearest whole around it; -1 when there is none. A
 * problem of all virtual clusters together has "*" for their names: the first of them.
 */
export function nearestField(controls: readonly string[], field: string): number {
  const [before, after] = field.split("*");
  if (after !== undefined) return controls.findIndex((each) => each.startsWith(before ?? "") && each.endsWith(after));
  let nearest = -1;
  controls.forEach((each, index) => {
    const holds = each === field || isPartOf(field, each);
    if (holds && each.length > (controls[nearest]?.length ?? 0)) nearest = index;
  });
  return nearest;
}

/**
 * The path of a field such as "virtual_clusters.vision.cells.V100-NODE" or "physical[0].nodes[1]" as far as the
 * document has it. Names may contain dots, so that only the document tells where one ends.
 */
export function pathOf(document: unknown, field: string): Path {
  const path: (string | number)[] = [];
  let value = document;
  let rest = field;
  while (rest && value !== null && typeof value === "object") {
    const key = Array.isArray(value) ? /^\[(\d+)\]/.exec(rest)?.[1] : longestKey(value, rest);
    const inner = key === undefined ? undefined : (value as Record<string, unknown>)[key];
    if (key === undefined || inner === undefined) break;
    path.push(Array.isArray(value) ? Number(key) : key);
    rest = rest.slice(Array.isArray(value) ? key.length + 2 : key.length).replace(/^\./, "");
    value = inner;
  }
  return path;
}

function longestKey(value: object, rest: string): string | undefined {
  const keys = Object.keys(value).filter((key) => rest === key || isPartOf(rest, key));
  return keys.sort((a, b) => b.length - a.length)[0];
}
