/** Editions: a form reads what it changes when it is opened, and its change is made only of what was read then.
 *
 * Else two people who edit one thing at the same time undo each other's changes without a word. The lists and the stream
 * have no editions, so the form reads the thing at its own address. */

import { queryOptions } from "@tanstack/react-query";

import { answerOf, ApiError } from "@/api/client";

/** What a change sends in `params.header`, so that it is refused (412) where another edition is in force. */
export interface Edition {
  "If-Match"?: string;
}

export interface EditionRead<T> {
  thing: T;
  edition: Edition;
}

type Call<T> = Promise<{ data?: T; error?: unknown; response: Response }>;

export async function readEdition<T>(call: Call<T>): Promise<EditionRead<T>> {
  const thing = await answerOf(call);
  const etag = (await call).response.headers.get("ETag");
  return { thing, edition: etag === null ? {} : { "If-Match": etag } };
}

/** How the thing at `key` is read for one opening of a form; it stays what it was until it is fetched explicitly. */
export function editionQuery<T>(key: readonly (string | number)[], read: () => Call<T>) {
  return queryOptions({
    queryKey: ["edition", ...key],
    queryFn: () => readEdition(read()),
    // What others change meanwhile must not become the edition that the form was made from.
    staleTime: "static",
    gcTime: 0,
    structuralSharing: false,
  });
}

export function isOutdated(error: unknown): boolean {
  return error instanceof ApiError && error.status === 412;
}
