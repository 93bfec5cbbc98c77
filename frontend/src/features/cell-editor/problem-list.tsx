import type { FieldProblem } from "@/api/schema";
import { counted } from "@/components/format";
import { nearestField, sentenceOf } from "@/features/cell-editor/problems";
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

function focusField(field: string): void {
  const controls = [...document.querySelectorAll<HTMLElement>("[data-field]")];
  const nearest = nearestField(
    controls.map(({ dataset }) => dataset.field ?? ""),
    field,
  );
  controls[nearest]?.focus();
}
