/** What the calendar reads and changes of reservations. */

import { queryOptions } from "@tanstack/react-query";

import { answerOf, api, everyPage, once } from "@/api/client";
import { type Edition, editionQuery } from "@/api/edition";
import type { PatchedReservationChangeRequest, ReservationInputRequest } from "@/api/schema";

/** Reservations that are not over. */
export const reservationsQuery = queryOptions({
  queryKey: ["reservations"],
  queryFn: ({ signal }) =>
    everyPage((page) =>
      answerOf(api.GET("/reservations", { params: { query: { state: ["announced", "in_force"], ...page } }, signal })),
    ),
  refetchInterval: 20_000,
});

export const makeReservation = (body: ReservationInputRequest) =>
  answerOf(api.POST("/reservations", { params: { header: once() }, body }));

export const reservationEdition = (id: number) =>
  editionQuery(["reservations", id], () =>
    api.GET("/reservations/{reservation_id}", { params: { path: { reservation_id: id } } }),
  );

export const changeReservation = (id: number, body: PatchedReservationChangeRequest, header: Edition) =>
  answerOf(api.PATCH("/reservations/{reservation_id}", { params: { path: { reservation_id: id }, header }, body }));

export const cancelReservation = (id: number) =>
  answerOf(api.DELETE("/reservations/{reservation_id}", { params: { path: { reservation_id: id } } }));
