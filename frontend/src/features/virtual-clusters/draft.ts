/** What the form of a virtual cluster holds, and the request it becomes. Pure. */

import type { ChosenPlugin, VirtualCluster, VirtualClusterInputRequest } from "@/api/schema";

export interface Draft {
  name: string;
  title: string;
  policy: ChosenPlugin;
  placer: ChosenPlugin;
  defaultTimeLimitSeconds: number | undefined;
  minRunSeconds: number | undefined;
  reclaimMinRunSeconds: number | undefined;
  guaranteed: Record<string, number | undefined>;
  /** Weight by tenant. */
  members: Record<string, number | undefined>;
}

export function draftOf(cluster: VirtualCluster | null): Draft {
  return {
    name: cluster?.name ?? "",
    title: cluster?.title ?? "",
    policy: cluster?.policy_plugin ?? { name: "fifo", parameters: {} },
    placer: cluster?.placer_plugin ?? { name: "consolidate", parameters: {} },
    defaultTimeLimitSeconds: cluster?.default_time_limit_seconds ?? 86_400,
    minRunSeconds: cluster?.min_run_seconds ?? 0,
    reclaimMinRunSeconds: cluster?.reclaim_min_run_seconds ?? 0,
    // What is lent or borrowed at present is not its own to change.
    guaranteed: cluster?.own_guaranteed ?? {},
    members: Object.fromEntries((cluster?.members ?? []).map(({ tenant, weight }) => [tenant, weight])),
  };
}

/** The body to send. What is guaranteed of models that are `divided` by cells follows from the cells and is left out. */
export function bodyOf(draft: Draft, divided: readonly string[] = []): Omit<VirtualClusterInputRequest, "name"> {
  const guaranteed = Object.entries(draft.guaranteed).flatMap(([model, gpus]) =>
    gpus && !divided.includes(model) ? [[model, gpus] as const] : [],
  );
  const members = Object.entries(draft.members).flatMap(([tenant, weight]) =>
    weight === undefined ? [] : [{ tenant, weight }],
  );
  return {
    title: draft.title,
    policy_plugin: draft.policy,
    placer_plugin: draft.placer,
    ...(draft.defaultTimeLimitSeconds === undefined
      ? {}
      : { default_time_limit_seconds: draft.defaultTimeLimitSeconds }),
    min_run_seconds: draft.minRunSeconds ?? 0,
    reclaim_min_run_seconds: draft.reclaimMinRunSeconds ?? 0,
    guaranteed: Object.fromEntries(guaranteed),
    members,
  };
}
