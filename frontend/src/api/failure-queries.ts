/** What is read of failures: lists of them, and how one ended. */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answerOf, api, cursorOf } from "@/api/client";
import { type Days, instantsOf } from "@/api/days";
import { fetchLog } from "@/api/queries";

export interface FailureFilters extends Days {
  /** A class of failures. */
  failure?: string | undefined;
  node?: string | undefined;
  tenant?: string | undefined;
}

export const failuresQuery = ({ since, until, ...filters }: FailureFilters) =>
  infiniteQueryOptions({
    queryKey: ["failures", filters, since, until],
    queryFn: ({ signal, pageParam }) => {
      const query = { ...filters, ...instantsOf({ since, until }), cursor: pageParam };
      return answerOf(api.GET("/failures", { params: { query }, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    placeholderData: keepPreviousData,
    refetchInterval: 30_000,
  });

/** How the job's last attempt that failed did; null where none did. */
export const jobFailureQuery = (job: number) =>
  queryOptions({
    queryKey: ["job", job, "failure"],
    queryFn: async ({ signal }) => {
      const answer = await answerOf(api.GET("/failures", { params: { query: { job, page_size: 1 } }, signal }));
      return answer.results[0] ?? null;
    },
  });

/** The last lines of what a rank wrote. */
export const lastLinesQuery = (job: number, attempt: number, rank: number, lines: number) =>
  queryOptions({
    queryKey: ["job", job, "last-lines", attempt, rank, lines],
    queryFn: async ({ signal }) => {
      const { chunks, removed } = await fetchLog(job, { attempt, rank, after: -1, limit: 1000, last: lines }, signal);
      const text = chunks.map((chunk) => chunk.text).join("");
      return { lines: text.replace(/\n$/, "").split("\n").slice(-lines), isEmpty: !text, removed };
    },
  });
