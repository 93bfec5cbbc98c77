/** Asks a what-if question and fetches its answer until there is one. */

import { useMutation } from "@tanstack/react-query";

import { answerOf, api, ApiError, once } from "@/api/client";
import type { WhatIfQuestionRequest } from "@/api/schema";

const PAUSE_MS = 400;
const MOST_LOOKS = 200;

export function useWhatIf() {
  return useMutation({
    mutationFn: async (body: WhatIfQuestionRequest) => {
      let asked = await answerOf(api.POST("/what-if", { params: { header: once() }, body }));
      for (let look = 0; look < MOST_LOOKS && (asked.state === "waiting" || asked.state === "running"); look += 1) {
        await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
        asked = await answerOf(api.GET("/what-if/{question_id}", { params: { path: { question_id: asked.id } } }));
      }
      if (asked.state !== "done") {
        throw new ApiError(0, asked.state, asked.problem || "There is no answer yet; ask again.", asked.fields);
      }
      return asked;
    },
  });
}
