import type { FieldProblem } from "@/api/types";
import { counted } from "@/components/format";
import { sentenceOf } from "@/features/cell-editor/problems";
import { Notice } from "@/ui/feedback";
import styles from "@/features/cell-editor/editor.module.css";

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

/** The control of the field, or of the nearest whole around it. */
function focusField(field: string): void {
  const controls = [...document.querySelectorAll<HTMLElement>("[data-field]")];
  const holding = controls.filter(({ dataset }) => dataset.field && field.startsWith(dataset.field));
  const nearest = holding.sort((a, b) => (b.dataset.field?.length ?? 0) - (a.dataset.field?.length ?? 0))[0];
  nearest?.focus();
}
