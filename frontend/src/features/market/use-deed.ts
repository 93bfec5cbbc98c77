/** One deed at the market: what it says when it is done, and what is asked for again. */

import { useMutation, useQueryClient } from "@tanstack/react-query";

import { ApiError } from "@/api/client";
import { useSay } from "@/ui/toasts";

export function useDeed<V>(act: (given: V) => Promise<unknown>, done: (given: V) => string, onDone?: () => void) {
  const say = useSay();
  const queries = useQueryClient();
  const deed = useMutation({
    mutationFn: act,
    onSuccess: (_answer, given) => {
      say("done", done(given));
      onDone?.();
      // The live stream says so too, as soon as it is heard.
      for (const key of ["market", "virtual-clusters"]) void queries.invalidateQueries({ queryKey: [key] });
    },
    onError: (error) => {
      if (!onDone) say("failed", error.message);
    },
  });
  return { ...deed, refusal: deed.error instanceof ApiError ? deed.error : null };
}
