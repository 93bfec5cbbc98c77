/** Whether the user saw the tour. */

import { answerOf, api } from "@/api/client";

export const sawTour = () => answerOf(api.PUT("/session/tour", { body: { seen: true } }));
