/** What the server says of the specification as it is written: where each problem stands, at which control and at which line of
 * the text, and their list. */

import { answerOf, api } from "@/api/client";
import type { CellsCheck, FieldProblem, SpecificationBodyRequest } from "@/api/schema";
import { counted } from "@/components/format";
import { useTypedCheck } from "@/components/typing";
import type { Path } from "@/components/yaml/document";
import styles from "@/features/cell-editor/editor.module.css";
import { Notice } from "@/ui/feedback";

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

const NO_PROBLEMS: FieldProblem[] = [];

export interface Check {
  /** The answer for exactly what stands in the form now; null while it is awaited. */
  answer: CellsCheck | null;
  /** The newest known problems and counts, perhaps of what stood there a moment ago. */
  problems: readonly FieldProblem[];
  guaranteed: CellsCheck["guaranteed"] | undefined;
  error: string | null;
}

export function useCellCheck(specification: unknown): Check {
  const { answer, newest, error } = useTypedCheck(["cells", "check"], { specification }, (body, signal) =>
    answerOf(api.POST("/cells/check", { body: body as SpecificationBodyRequest, signal })),
  );
  return {
    answer,
    problems: newest?.problems ?? NO_PROBLEMS,
    guaranteed: newest?.guaranteed,
    error: error?.message ?? null,
  };
}

/** Everything that is wrong; a click leads to the control that can mend it. */
export function ProblemList({ problems }: { problems: readonly FieldProblem[] }) {
  if (problems.length === 0) return null;
  return (
    <Notice tone="failed">
      <strong>{counted(problems.length, "problem")}</strong>
      <ul className={styles.problems}>
        {problems.map((problem) => (
          <li key={`${problem.field} ${problem.problem}`}>
            <button type="button" onClick={() => focusField(problem.field)}>
              {problem.field}
            </button>
            : {sentenceOf(problem)}
          </li>
        ))}
      </ul>
    </Notice>
  );
}

function focusField(field: string): void {
  const controls = [...document.querySelectorAll<HTMLElement>("[data-field]")];
  const nearest = nearestField(
    controls.map(({ dataset }) => dataset.field ?? ""),
    field,
  );
  controls[nearest]?.focus();
}
