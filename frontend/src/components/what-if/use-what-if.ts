/** Asks a what-if question and fetches its answer until there is one. */

import { useMutation } from "@tanstack/react-query";

import { ApiError, newIdempotencyKey, request } from "@/api/client";
import type { WhatIf } from "@/api/types";

const PAUSE_MS = 400;
const MOST_LOOKS = 200;

export function useWhatIf() {
  return useMutation({
    mutationFn: async (question: object) => {
      let asked = await request<WhatIf>("POST", "/what-if", { body: question, idempotencyKey: newIdempotencyKey() });
      for (let look = 0; look < MOST_LOOKS && (asked.state === "waiting" || asked.state === "running"); look += 1) {
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        asked = await request<WhatIf>("GET", `/what-if/${asked.id}`);
      }
      if (asked.state !== "done") {
        throw new ApiError(0, asked.state, asked.problem || "There is no answer yet; ask again.", asked.fields);
      }
      return asked;
    },
  });
}
