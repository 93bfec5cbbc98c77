/** Ties the stream to the queries: what to fetch again, and when. */

import type { Query, QueryClient } from "@tanstack/react-query";

import type { ApiError } from "@/api/client";
import { meQuery } from "@/api/queries";
import { live } from "@/live/live";
import type { LiveState } from "@/live/store";

const REFETCH_EVERY_MS = 60_000;
/** Lists whose order or membership is the server's are asked for again at most this often. */
const LIST_PAUSE_MS = 1500;

export function startLive(queries: QueryClient): () => void {
  // A form that is open goes on from what it has read. What the role of a person forbids stays forbidden.
  const all = {
    predicate: ({ queryKey: [kind], state: { error } }: Query) =>
      kind !== "me" && kind !== "edition" && (error as Partial<ApiError> | null)?.status !== 403,
  };
  const refetchAll = () => void queries.invalidateQueries(all);
  const checkSession = () => void queries.refetchQueries({ queryKey: meQuery.queryKey });
  // What changed before a connection, the first one too, was told to nobody.
  const stop = live.start(() => {
    checkSession();
    // A first answer that is under way was perhaps read before: to invalidate it alone would wait for just that one.
    void queries.cancelQueries(all).then(refetchAll);
  }, checkSession);
  // While the stream tells it what changes, the map is asked for more seldom (`api/map-queries`).
  const due = {
    predicate: (query: Query) => all.predicate(query) && (query.queryKey[0] !== "map" || live.status() !== "live"),
  };
  const minute = setInterval(() => void queries.invalidateQueries(due), REFETCH_EVERY_MS);
  const unsubscribe = refetchChangedLists(queries);
  return () => {
    stop();
    clearInterval(minute);
    unsubscribe();
  };
}

function refetchChangedLists(queries: QueryClient): () => void {
  let seen = live.current();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stale = new Set<string>();
  const flush = () => {
    timer = undefined;
    for (const key of stale) void queries.invalidateQueries({ queryKey: key.split(" ") });
    stale.clear();
  };
  const unsubscribe = live.subscribe(() => {
    const state = live.current();
    // What a virtual cluster uses changes with jobs and GPUs, without a version of its own.
    if (jobsMoved(seen, state))
      for (const key of ["jobs list", "jobs counts", "cluster", "virtual-clusters", "cells", "shared-gpus"])
        stale.add(key);
    if (seen.node !== state.node) for (const key of ["virtual-clusters", "gpu-models", "cells"]) stale.add(key);
    // Who owns which cells.
    if (seen.virtual_cluster !== state.virtual_cluster) stale.add("cells");
    // A loan also moves guarantees.
    if (seen.market !== state.market) for (const key of ["market", "virtual-clusters", "cells"]) stale.add(key);
    // A round also binds cells and lets go of them, without a job that moves.
    if (seen.round !== state.round) for (const key of ["rounds", "events", "cells"]) stale.add(key);
    seen = state;
    if (stale.size > 0) timer ??= setTimeout(flush, LIST_PAUSE_MS);
  });
  return () => {
    unsubscribe();
    clearTimeout(timer);
  };
}

/** Whether a job appeared or changed state: only then can a filtered list or a count differ. The map's rows come when
 * the lists are asked for too; what changes them since comes whole. */
function jobsMoved(before: LiveState, after: LiveState): boolean {
  if (before.job === after.job) return false;
  for (const [id, job] of after.job) {
    const known = before.job.get(id) ?? before.mapJob.get(id);
    if (known !== job && known?.state !== job.state) return true;
  }
  return false;
}
