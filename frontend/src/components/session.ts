/** Who is signed in. Pages are only shown to someone who is, so there always is an answer. */

import { useQueryClient, useSuspenseQuery } from "@tanstack/react-query";

import { api } from "@/api/client";
import { meQuery } from "@/api/queries";
import type { Me } from "@/api/schema";
import { live } from "@/live/live";

export function useSession(): Me {
  const { data } = useSuspenseQuery(meQuery);
  if (!data) throw new Error("No user is signed in.");
  return data;
}

export function useSignOut(): () => void {
  const queries = useQueryClient();
  return () => {
    void api.DELETE("/session").finally(() => {
      queries.setQueryData(meQuery.queryKey, null);
      queries.removeQueries({ predicate: (query) => query.queryKey[0] !== "me" });
      live.apply({ type: "forget" });
    });
  };
}
