import { useQuery } from "@tanstack/react-query";

import { answerOf, api } from "@/api/client";
import type { VirtualCluster } from "@/api/schema";
import { counted, duration } from "@/components/format";

const LOOK_AGAIN_MS = 60_000;

/** After how long attempts of a virtual cluster may be displaced, in words. */
export function leastRun(cluster: VirtualCluster): string {
  const { min_run_seconds: least, reclaim_min_run_seconds: reclaim } = cluster;
  const policies =
    least > 0 ? `${duration(least)} before a policy displaces it` : "none: policies displace any attempt";
  return reclaim > 0 ? `${policies}, ${duration(reclaim)} before a guarantee does` : policies;
}

/** How often jobs of a virtual cluster were preempted in the last day, and what that cost. */
export function PreemptionsOf({ name }: { name: string }) {
  const { data } = useQuery({
    queryKey: ["preemptions", name],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/virtual-clusters/{name}/preemptions", { params: { path: { name } }, signal })),
    refetchInterval: LOOK_AGAIN_MS,
  });
  if (!data) return null;
  if (data.preemptions === 0) return <>not in the last {data.hours} hours</>;
  const cost = data.lost_gpu_hours + data.overhead_gpu_hours;
  return (
    <>
      {counted(data.preemptions, "time")} in {data.hours} hours, which cost {cost.toFixed(2)} GPU-hours of lost work and
      restarts
    </>
  );
}
