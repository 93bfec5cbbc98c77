/** Asks the server about the specification whenever typing pauses. */

import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useMemo, useState } from "react";

import type { CellsCheck, FieldProblem, SpecificationBodyRequest } from "@/api/schema";
import { answerOf, api } from "@/api/client";

const TYPING_PAUSE_MS = 400;
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
  const now = useMemo(() => JSON.stringify({ specification }), [specification]);
  const [asked, setAsked] = useState(now);
  useEffect(() => {
    const timer = setTimeout(() => setAsked(now), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [now]);
  const query = useQuery({
    queryKey: ["cells", "check", asked],
    queryFn: ({ signal }) =>
      answerOf(api.POST("/cells/check", { body: JSON.parse(asked) as SpecificationBodyRequest, signal })),
    placeholderData: keepPreviousData,
    retry: false,
    // Running jobs and the inventory change.
    staleTime: 5_000,
    gcTime: 30_000,
  });
  const isCurrent = asked === now && !query.isPlaceholderData;
  return {
    answer: isCurrent ? (query.data ?? null) : null,
    problems: query.data?.problems ?? NO_PROBLEMS,
    guaranteed: query.data?.guaranteed,
    error: query.error?.message ?? null,
  };
}
