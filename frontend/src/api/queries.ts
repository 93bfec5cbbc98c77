/** What the pages read. Answers also enter the live store, which knows whether they are still the newest. */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answerOf, api, ApiError, cursorOf, everyPage } from "@/api/client";
import type { operations } from "@/api/schema";
import { live } from "@/live/live";
import type { Kind, Objects } from "@/live/messages";
import type { Change } from "@/live/store";

/** Put the objects of an answer into the live store too. */
export async function ingest<K extends Kind, A extends { results: Objects[K][] }>(
  kind: K,
  ask: () => Promise<A>,
): Promise<A> {
  const since = live.current().clock;
  const answer = await ask();
  live.apply({ type: "fetched", kind, objects: answer.results, since } as Change);
  return answer;
}

/** The same of one object. */
async function ingestOne<K extends Kind>(kind: K, ask: () => Promise<Objects[K]>): Promise<Objects[K]> {
  let object!: Objects[K];
  await ingest(kind, async () => ({ results: [(object = await ask())] }));
  return object;
}

/** Null when nobody is signed in. */
export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: async ({ signal }) => {
    try {
      return await answerOf(api.GET("/session", { signal }));
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return null;
      throw error;
    }
  },
  staleTime: Infinity,
});

export type JobFilters = NonNullable<operations["jobs_counts_get"]["parameters"]["query"]>;
export type JobOrder = NonNullable<operations["jobs_list"]["parameters"]["query"]>["sort"];

export const jobsQuery = (filters: JobFilters, sort: JobOrder, cursor: string | undefined) =>
  queryOptions({
    queryKey: ["jobs", "list", filters, sort, cursor ?? ""],
    queryFn: ({ signal }) =>
      ingest("job", () =>
        answerOf(api.GET("/jobs", { params: { query: { ...filters, sort, cursor, page_size: 50 } }, signal })),
      ),
    placeholderData: keepPreviousData,
  });

/** One's own saved searches, and those that one's tenants share. */
export const savedSearchesQuery = queryOptions({
  queryKey: ["jobs", "searches"],
  queryFn: ({ signal }) => everyPage((query) => answerOf(api.GET("/jobs/searches", { params: { query }, signal }))),
});

/** How many jobs there are in each state under the same filters. */
export const jobCountsQuery = (filters: JobFilters) =>
  queryOptions({
    queryKey: ["jobs", "counts", filters],
    queryFn: ({ signal }) => answerOf(api.GET("/jobs/counts", { params: { query: filters }, signal })),
    placeholderData: keepPreviousData,
  });

export const jobQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id],
    queryFn: ({ signal }) =>
      ingestOne("job", () => answerOf(api.GET("/jobs/{job_id}", { params: { path: { job_id: id } }, signal }))),
  });

export const whyQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id, "why"],
    queryFn: ({ signal }) => answerOf(api.GET("/jobs/{job_id}/why", { params: { path: { job_id: id } }, signal })),
  });

export const attemptsQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id, "attempts"],
    queryFn: ({ signal }) =>
      everyPage((query) =>
        answerOf(api.GET("/jobs/{job_id}/attempts", { params: { path: { job_id: id }, query }, signal })),
      ),
  });

export const jobEventsQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id, "events"],
    queryFn: async ({ signal }) =>
      (await answerOf(api.GET("/jobs/{job_id}/events", { params: { path: { job_id: id } }, signal }))).results,
  });

export const progressQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id, "progress"],
    queryFn: ({ signal }) => answerOf(api.GET("/jobs/{job_id}/progress", { params: { path: { job_id: id } }, signal })),
  });

export const dependenciesQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id, "dependencies"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/jobs/{job_id}/dependencies", { params: { path: { job_id: id } }, signal })),
  });

export const inputWorkersQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id, "input-workers"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/jobs/{job_id}/input-workers", { params: { path: { job_id: id } }, signal })),
  });

export const scalingQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id, "scaling"],
    queryFn: ({ signal }) => answerOf(api.GET("/jobs/{job_id}/scaling", { params: { path: { job_id: id } }, signal })),
  });

export const sensitivityQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id, "sensitivity"],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/jobs/{job_id}/sensitivity", { params: { path: { job_id: id } }, signal })),
  });

export const fetchLog = (
  job: number,
  query: { attempt?: number | undefined; rank: number; after: number; limit: number; last?: number },
  signal?: AbortSignal,
) => answerOf(api.GET("/jobs/{job_id}/logs", { params: { path: { job_id: job }, query }, signal: signal ?? null }));

export const fetchMergedLog = (
  job: number,
  query: { attempt: number; task?: string | undefined; after: string },
  signal?: AbortSignal,
) =>
  answerOf(api.GET("/jobs/{job_id}/logs/merged", { params: { path: { job_id: job }, query }, signal: signal ?? null }));

/** Lines of an attempt's whole output; each page goes on where the last one stopped. */
/** What a folder of a job's checkpoints holds; "" is the job's own. */
export const artefactsQuery = (job: number, path: string) =>
  infiniteQueryOptions({
    queryKey: ["job", job, "artefacts", path],
    queryFn: ({ pageParam: cursor, signal }) => {
      const query = { path, cursor, page_size: 200 };
      return answerOf(api.GET("/jobs/{job_id}/artefacts", { params: { path: { job_id: job }, query }, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
    retry: false,
  });

export const logSearchQuery = (
  job: number,
  { matchCase, ...where }: { attempt: number; q: string; regex: boolean; matchCase: boolean },
) =>
  infiniteQueryOptions({
    queryKey: ["job", job, "log-search", where, matchCase],
    queryFn: ({ pageParam, signal }) => {
      const query = { ...where, match_case: matchCase, after: pageParam };
      return answerOf(api.GET("/jobs/{job_id}/logs/search", { params: { path: { job_id: job }, query }, signal }));
    },
    initialPageParam: "",
    getNextPageParam: (last) => last.next_after || undefined,
    retry: false,
  });

export const nodesQuery = queryOptions({
  queryKey: ["nodes"],
  queryFn: ({ signal }) =>
    everyPage((query) => ingest("node", () => answerOf(api.GET("/nodes", { params: { query }, signal })))),
});

export const nodeQuery = (name: string) =>
  queryOptions({
    queryKey: ["nodes", name],
    queryFn: ({ signal }) =>
      ingestOne("node", () => answerOf(api.GET("/nodes/{name}", { params: { path: { name } }, signal }))),
  });

/** The jobs that hold GPUs of a node, or take them next. */
export const jobsOnNodeQuery = (node: string) =>
  queryOptions({
    queryKey: ["jobs", "on", node],
    queryFn: ({ signal }) =>
      everyPage((page) =>
        ingest("job", () => answerOf(api.GET("/jobs", { params: { query: { node, ...page } }, signal }))),
      ),
  });

export const virtualClustersQuery = queryOptions({
  queryKey: ["virtual-clusters"],
  queryFn: ({ signal }) =>
    everyPage((query) =>
      ingest("virtual_cluster", () => answerOf(api.GET("/virtual-clusters", { params: { query }, signal }))),
    ),
});

export const policiesQuery = queryOptions({
  queryKey: ["policies"],
  queryFn: ({ signal }) => answerOf(api.GET("/policies", { signal })),
  staleTime: Infinity,
});

export const gpuModelsQuery = queryOptions({
  queryKey: ["gpu-models"],
  queryFn: async ({ signal }) => (await answerOf(api.GET("/gpu-models", { signal }))).results,
});

export const usageQuery = (minutes: number) =>
  queryOptions({
    queryKey: ["cluster", "usage", minutes],
    queryFn: ({ signal }) => answerOf(api.GET("/cluster/usage", { params: { query: { minutes } }, signal })),
  });

export const tenantsQuery = queryOptions({
  queryKey: ["tenants"],
  queryFn: ({ signal }) => everyPage((query) => answerOf(api.GET("/tenants", { params: { query }, signal }))),
});

export const tenantQuery = (name: string) =>
  queryOptions({
    queryKey: ["tenants", name],
    queryFn: ({ signal }) => answerOf(api.GET("/tenants/{name}", { params: { path: { name } }, signal })),
  });

export const quotaQuery = (tenant: string) =>
  queryOptions({
    queryKey: ["tenants", tenant, "quota"],
    queryFn: ({ signal }) => answerOf(api.GET("/tenants/{name}/quota", { params: { path: { name: tenant } }, signal })),
  });

const HELD_AGAIN_MS = 10_000;

/** What the tenant's jobs hold, as its quota counts it. */
export const heldQuery = (tenant: string) =>
  queryOptions({
    queryKey: ["tenants", tenant, "held"],
    queryFn: ({ signal }) => answerOf(api.GET("/tenants/{name}/held", { params: { path: { name: tenant } }, signal })),
    refetchInterval: HELD_AGAIN_MS,
  });

export const membersQuery = (tenant: string) =>
  queryOptions({
    queryKey: ["tenants", tenant, "members"],
    queryFn: ({ signal }) =>
      everyPage((query) =>
        answerOf(api.GET("/tenants/{name}/members", { params: { path: { name: tenant }, query }, signal })),
      ),
  });

export const roundsQuery = infiniteQueryOptions({
  queryKey: ["rounds"],
  queryFn: ({ signal, pageParam }) =>
    ingest("round", () => answerOf(api.GET("/rounds", { params: { query: { cursor: pageParam } }, signal }))),
  initialPageParam: "",
  getNextPageParam: (page) => cursorOf(page.next),
});

export const roundQuery = (number: number) =>
  queryOptions({
    queryKey: ["rounds", number],
    queryFn: ({ signal }) => answerOf(api.GET("/rounds/{number}", { params: { path: { number } }, signal })),
  });

export interface EventFilters {
  kind?: string | undefined;
  tenant?: string | undefined;
  node?: string | undefined;
  job?: number | undefined;
  job_name?: string | undefined;
}

export const eventsQuery = (filters: EventFilters) =>
  infiniteQueryOptions({
    queryKey: ["events", filters],
    queryFn: ({ signal, pageParam }) =>
      answerOf(api.GET("/events", { params: { query: { ...filters, cursor: pageParam } }, signal })),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
  });
