/** What the pages read. Answers also enter the live store, which knows whether they are still the newest. */

import { infiniteQueryOptions, keepPreviousData, queryOptions } from "@tanstack/react-query";

import { ApiError, cursorOf, queryString, request } from "@/api/client";
import { ingest } from "@/api/ingest";
import type {
  Cluster,
  ClusterEvent,
  GpuModel,
  Job,
  JobState,
  LogPage,
  LogSearch,
  Me,
  Member,
  MergedLogPage,
  Node,
  Page,
  Plugins,
  ProgressPoint,
  Quota,
  Round,
  RoundDetail,
  Tenant,
  UsagePoint,
  VirtualCluster,
  Why,
  Attempt,
} from "@/api/types";

const LARGEST_PAGE = 200;

/** Null when nobody is signed in. */
export const meQuery = queryOptions({
  queryKey: ["me"],
  queryFn: async ({ signal }) => {
    try {
      return await request<Me>("GET", "/session", { signal });
    } catch (error) {
      if (error instanceof ApiError && error.status === 401) return null;
      throw error;
    }
  },
  staleTime: Infinity,
});

export interface JobFilters {
  state?: JobState[] | undefined;
  tenant?: string | undefined;
  virtual_cluster?: string | undefined;
  guarantee?: string | undefined;
  gpu_model?: string | undefined;
  submitted_by?: string | undefined;
  q?: string | undefined;
}

export const jobsQuery = (filters: JobFilters, cursor: string | undefined) =>
  queryOptions({
    queryKey: ["jobs", "list", filters, cursor ?? ""],
    queryFn: ({ signal }) =>
      ingest("job", () =>
        request<Page<Job>>("GET", `/jobs${queryString({ ...filters, cursor, page_size: 50 })}`, { signal }),
      ),
    placeholderData: keepPreviousData,
  });

/** How many jobs there are in each state under the same filters. */
export const jobCountsQuery = (filters: JobFilters) =>
  queryOptions({
    queryKey: ["jobs", "counts", filters],
    queryFn: ({ signal }) =>
      request<Record<JobState, number>>("GET", `/jobs/counts${queryString({ ...filters })}`, { signal }),
    placeholderData: keepPreviousData,
  });

/** Every job that waits or runs: what the map and the queue are drawn from. The stream keeps it current. */
export const activeJobsQuery = queryOptions({
  queryKey: ["jobs", "active"],
  queryFn: ({ signal }) => everyPage<Job>("job", `/jobs${queryString({ state: ["queued", "running"] })}`, signal),
});

export const jobQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id],
    queryFn: async ({ signal }) =>
      (await ingest("job", async () => ({ results: [await request<Job>("GET", `/jobs/${id}`, { signal })] })))
        .results[0],
  });

export const whyQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id, "why"],
    queryFn: ({ signal }) => request<Why>("GET", `/jobs/${id}/why`, { signal }),
  });

export const attemptsQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id, "attempts"],
    queryFn: ({ signal }) => everyPage<Attempt>(null, `/jobs/${id}/attempts`, signal),
  });

export const jobEventsQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id, "events"],
    queryFn: async ({ signal }) => (await request<Page<ClusterEvent>>("GET", `/jobs/${id}/events`, { signal })).results,
  });

export const progressQuery = (id: number) =>
  queryOptions({
    queryKey: ["job", id, "progress"],
    queryFn: ({ signal }) => request<{ points: ProgressPoint[] }>("GET", `/jobs/${id}/progress`, { signal }),
  });

export function fetchLog(
  job: number,
  where: { attempt?: number | undefined; rank: number; after: number; limit: number },
  signal?: AbortSignal,
): Promise<LogPage> {
  return request<LogPage>("GET", `/jobs/${job}/logs${queryString(where)}`, signal ? { signal } : {});
}

export function fetchMergedLog(
  job: number,
  where: { attempt: number; task?: string | undefined; after: string },
  signal?: AbortSignal,
): Promise<MergedLogPage> {
  return request<MergedLogPage>("GET", `/jobs/${job}/logs/merged${queryString(where)}`, signal ? { signal } : {});
}

/** Lines of an attempt's whole output; each page goes on where the last one stopped. */
export const logSearchQuery = (
  job: number,
  { matchCase, ...where }: { attempt: number; q: string; regex: boolean; matchCase: boolean },
) =>
  infiniteQueryOptions({
    queryKey: ["job", job, "log-search", where, matchCase],
    queryFn: ({ pageParam, signal }) => {
      const query = { ...where, regex: String(where.regex), match_case: String(matchCase), after: pageParam };
      return request<LogSearch>("GET", `/jobs/${job}/logs/search${queryString(query)}`, { signal });
    },
    initialPageParam: "",
    getNextPageParam: (last) => last.next_after || undefined,
    retry: false,
  });

export const nodesQuery = queryOptions({
  queryKey: ["nodes"],
  queryFn: ({ signal }) => everyPage<Node>("node", "/nodes", signal),
});

export const nodeQuery = (name: string) =>
  queryOptions({
    queryKey: ["nodes", name],
    queryFn: async ({ signal }) =>
      (await ingest("node", async () => ({ results: [await request<Node>("GET", `/nodes/${name}`, { signal })] })))
        .results[0],
  });

export const virtualClustersQuery = queryOptions({
  queryKey: ["virtual-clusters"],
  queryFn: ({ signal }) => everyPage<VirtualCluster>("virtual_cluster", "/virtual-clusters", signal),
});

export const policiesQuery = queryOptions({
  queryKey: ["policies"],
  queryFn: ({ signal }) => request<Plugins>("GET", "/policies", { signal }),
  staleTime: Infinity,
});

export const gpuModelsQuery = queryOptions({
  queryKey: ["gpu-models"],
  queryFn: async ({ signal }) => (await request<Page<GpuModel>>("GET", "/gpu-models", { signal })).results,
});

export const clusterQuery = queryOptions({
  queryKey: ["cluster"],
  queryFn: ({ signal }) => request<Cluster>("GET", "/cluster", { signal }),
  refetchInterval: 10_000,
});

export const usageQuery = (minutes: number) =>
  queryOptions({
    queryKey: ["cluster", "usage", minutes],
    queryFn: ({ signal }) =>
      request<{ points: UsagePoint[] }>("GET", `/cluster/usage${queryString({ minutes })}`, { signal }),
  });

export const tenantsQuery = queryOptions({
  queryKey: ["tenants"],
  queryFn: ({ signal }) => everyPage<Tenant>(null, "/tenants", signal),
});

export const tenantQuery = (name: string) =>
  queryOptions({
    queryKey: ["tenants", name],
    queryFn: ({ signal }) => request<Tenant>("GET", `/tenants/${name}`, { signal }),
  });

export const quotaQuery = (tenant: string) =>
  queryOptions({
    queryKey: ["tenants", tenant, "quota"],
    queryFn: ({ signal }) => request<Quota>("GET", `/tenants/${tenant}/quota`, { signal }),
  });

export const membersQuery = (tenant: string) =>
  queryOptions({
    queryKey: ["tenants", tenant, "members"],
    queryFn: ({ signal }) => everyPage<Member>(null, `/tenants/${tenant}/members`, signal),
  });

export const roundsQuery = infiniteQueryOptions({
  queryKey: ["rounds"],
  queryFn: ({ signal, pageParam }) =>
    ingest("round", () => request<Page<Round>>("GET", `/rounds${queryString({ cursor: pageParam })}`, { signal })),
  initialPageParam: "",
  getNextPageParam: (page) => cursorOf(page.next),
});

export const roundQuery = (number: number) =>
  queryOptions({
    queryKey: ["rounds", number],
    queryFn: ({ signal }) => request<RoundDetail>("GET", `/rounds/${number}`, { signal }),
  });

export interface EventFilters {
  kind?: string | undefined;
  tenant?: string | undefined;
  node?: string | undefined;
  job?: number | undefined;
}

export const eventsQuery = (filters: EventFilters) =>
  infiniteQueryOptions({
    queryKey: ["events", filters],
    queryFn: ({ signal, pageParam }) =>
      request<Page<ClusterEvent>>("GET", `/events${queryString({ ...filters, cursor: pageParam })}`, { signal }),
    initialPageParam: "",
    getNextPageParam: (page) => cursorOf(page.next),
  });

export async function everyPage<T>(
  kind: "job" | "node" | "virtual_cluster" | null,
  path: string,
  signal: AbortSignal,
): Promise<T[]> {
  const all: T[] = [];
  let cursor: string | undefined;
  do {
    const query = queryString({ page_size: LARGEST_PAGE, cursor }).slice(1);
    const address = path + (path.includes("?") ? "&" : "?") + query;
    const page = await (kind
      ? ingest(kind, () => request<Page<never>>("GET", address, { signal }))
      : request<Page<never>>("GET", address, { signal }));
    all.push(...page.results);
    cursor = cursorOf(page.next);
  } while (cursor);
  return all;
}
