/** What the server says about the specification as it is written. */

import { answerOf, api, ApiError } from "@/api/client";
import type { CheckAnswer, FieldProblem, JobSubmitRequest } from "@/api/schema";
import { useTypedCheck } from "@/components/typing";

const NO_PROBLEMS: FieldProblem[] = [];

export interface Check {
  /** The answer for exactly what stands in the form now; null while it is awaited. */
  answer: CheckAnswer | null;
  fields: readonly FieldProblem[];
  /** The server could not be asked, or refused as a whole. */
  error: string | null;
}

export function useCheck(spec: Record<string, unknown> | null, tenant: string): Check {
  const document = spec && tenant !== "" ? { ...spec, tenant } : null;
  const { answer, newest, error } = useTypedCheck(["check"], document, (body, signal) =>
    answerOf(api.POST("/jobs/check", { body: body as unknown as JobSubmitRequest, signal })),
  );
  const refusal = error instanceof ApiError ? error : null;
  return { answer, fields: refusal?.fields ?? newest?.fields ?? NO_PROBLEMS, error: error?.message ?? null };
}
