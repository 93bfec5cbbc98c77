/** What the palette finds by some letters of a name: a few of each kind, searched for by the server. */

import { keepPreviousData, queryOptions } from "@tanstack/react-query";

import { answerOf, api } from "@/api/client";
import type { Me } from "@/api/schema";

/** At most this many of a kind; more letters find the others. */
const MOST = 6;
/** The members of at most this many of a user's tenants are searched: each is a request. */
const MOST_TENANTS = 6;

interface Named {
  name: string;
  title?: string;
}

export interface Found {
  jobs: readonly { id: number; name: string }[];
  nodes: readonly Named[];
  clusters: readonly Named[];
  tenants: readonly Named[];
  /** With the tenant in which the viewer sees the user; an operator sees all users. */
  users: readonly { username: string; tenant: string | null }[];
}

export const searchQuery = (q: string, me: Me) =>
  queryOptions({
    queryKey: ["search", q],
    queryFn: async ({ signal }): Promise<Found> => {
      const asked = { params: { query: { q, page_size: MOST } }, signal };
      const [jobs, nodes, clusters, tenants, users] = await Promise.all([
        resultsOf(answerOf(api.GET("/jobs", asked))),
        resultsOf(answerOf(api.GET("/nodes", asked))),
        resultsOf(answerOf(api.GET("/virtual-clusters", asked))),
        resultsOf(answerOf(api.GET("/tenants", asked))),
        usersNamed(q, me, signal),
      ]);
      return { jobs, nodes, clusters, tenants, users };
    },
    enabled: q !== "",
    placeholderData: keepPreviousData,
    retry: false,
  });

/** A kind that cannot be searched now hides none of the others. */
async function resultsOf<T>(answer: Promise<{ results: T[] }>): Promise<T[]> {
  try {
    return (await answer).results;
  } catch {
    return [];
  }
}

async function usersNamed(q: string, me: Me, signal: AbortSignal): Promise<Found["users"]> {
  const query = { q, page_size: MOST };
  if (me.is_operator) {
    const users = await resultsOf(answerOf(api.GET("/users", { params: { query }, signal })));
    return users.map(({ username }) => ({ username, tenant: null }));
  }
  const members = await Promise.all(
    me.tenants.slice(0, MOST_TENANTS).map(async ({ name }) => {
      const ask = api.GET("/tenants/{name}/members", { params: { path: { name }, query }, signal });
      return (await resultsOf(answerOf(ask))).map(({ username }) => ({ username, tenant: name }));
    }),
  );
  const byName = new Map(members.flat().map((member) => [member.username, member]));
  return [...byName.values()].slice(0, MOST);
}
