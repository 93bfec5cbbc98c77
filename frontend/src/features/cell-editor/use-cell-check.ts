/** What the server says about the specification as it is written. */

import type { CellsCheck, FieldProblem, SpecificationBodyRequest } from "@/api/schema";
import { answerOf, api } from "@/api/client";
import { useTypedCheck } from "@/components/typing";

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
