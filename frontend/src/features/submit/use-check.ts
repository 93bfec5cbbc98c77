/** Asks the server about the specification whenever typing pauses. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";

import { answerOf, api, ApiError } from "@/api/client";
import type { CheckAnswer, FieldProblem, JobSubmitRequest } from "@/api/schema";

const TYPING_PAUSE_MS = 350;
const NO_PROBLEMS: FieldProblem[] = [];

export interface Check {
  /** The answer for exactly what stands in the form now; null while it is awaited. */
  answer: CheckAnswer | null;
  fields: readonly FieldProblem[];
  /** The server could not be asked, or refused as a whole. */
  error: string | null;
}

export function useCheck(spec: Record<string, unknown> | null, tenant: string): Check {
  const now = spec ? JSON.stringify({ ...spec, tenant }) : null;
  const [asked, setAsked] = useState(now);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(now), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [now]);
  const query = useQuery({
    queryKey: ["check", asked],
    queryFn: ({ signal }) =>
      answerOf(api.POST("/jobs/check", { body: JSON.parse(asked ?? "{}") as JobSubmitRequest, signal })),
    enabled: asked !== null && tenant !== "",
    placeholderData: keepPreviousData,
    retry: false,
    // Whether it would start at once changes with the cluster.
    staleTime: 5_000,
    gcTime: 30_000,
  });
  const isCurrent = asked === now && !query.isPlaceholderData;
  const refusal = query.error instanceof ApiError ? query.error : null;
  return {
    answer: isCurrent ? (query.data ?? null) : null,
    fields: refusal?.fields ?? query.data?.fields ?? NO_PROBLEMS,
    error: query.error?.message ?? null,
  };
}
