import { queryOptions, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";

import { answerOf, api } from "@/api/client";
import type { FragmentationNow, FragmentedKind } from "@/api/schema";
import { Chart } from "@/components/chart";
import { counted } from "@/components/format";
import { Segments } from "@/ui/choice";
import { EmptyState, ErrorNotice, Skeleton } from "@/ui/feedback";
import { muted, numeric, Panel, TableFrame } from "@/ui/layout";

const SPANS = [
  { value: "60", label: "1 hour" },
  { value: "1440", label: "24 hours" },
  { value: "10080", label: "7 days" },
] as const;

type Span = (typeof SPANS)[number]["value"];

/** How much of the idle GPUs is of no use to what usually runs, and why. For operators. */
export function FragmentationPanel() {
  const [span, setSpan] = useState<Span>("60");
  const query = useQuery(fragmentationQuery(Number(span)));
  const points = query.data?.points ?? [];
  const newest = query.data?.newest;
  return (
    <Panel
      title="Fragmentation of idle GPUs"
      actions={<Segments label="Time span" value={span} options={SPANS} onChange={setSpan} />}
    >
      {query.isError ? (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      ) : query.isPending ? (
        <Skeleton height="13rem" />
      ) : !newest ? (
        <EmptyState title="Not measured yet">Fragmentation is measured once a minute.</EmptyState>
      ) : (
        <>
          <p>{verdict(newest)}</p>
          {points.length > 1 && (
            <Chart
              label="Idle and unusable GPUs over time"
              x={points.map(({ at }) => Date.parse(at) / 1000)}
              series={[
                { label: "Idle", token: "ink-muted", values: points.map(({ idle }) => idle), dashed: true },
                { label: "Unusable", token: "state-failed", values: points.map(({ fragmented }) => fragmented) },
              ]}
              height={170}
              ceiling={Math.max(1, ...points.map(({ idle }) => idle))}
            />
          )}
          {newest.fragmented > 0 && <Causes newest={newest} />}
          <p className={muted}>
            The usual workload: replicas of the jobs of the last seven days and of those that have not ended.
          </p>
        </>
      )}
    </Panel>
  );
}

function verdict({ idle, fragmented, kinds }: FragmentationNow): string {
  if (idle === 0) return "No GPU is idle.";
  if (kinds.length === 0) return `${counted(idle, "GPU")} idle; there are no jobs yet to compare them with.`;
  const part = Math.round((100 * fragmented) / idle);
  const usable = Number((idle - fragmented).toFixed(1));
  return `An average replica of the usual workload can use ${usable} of ${counted(idle, "idle GPU")}: ${part} % of them are fragmented.`;
}

const CAUSES: Record<string, string> = {
  gpus: "Too few GPUs together, or too little of one",
  cpus: "Too few CPUs",
  gpus_and_cpus: "Too few GPUs and too few CPUs",
  model: "Another GPU model",
  no_gpu: "They need no GPU",
  no_gpu_no_cpus: "They need no GPU, and too few CPUs",
};
const ROWS_MOST = 6;

function Causes({ newest }: { newest: FragmentationNow }) {
  const causes = Object.entries(newest.causes).sort(([, one], [, other]) => other - one);
  const kinds = newest.kinds
    .filter(({ usable }) => usable < newest.idle)
    .sort((one, other) => lost(other, newest) - lost(one, newest));
  return (
    <>
      <TableFrame label="What replicas lack">
        <thead>
          <tr>
            <th scope="col">What they lack</th>
            <th scope="col" className={numeric}>
              GPUs
            </th>
          </tr>
        </thead>
        <tbody>
          {causes.map(([cause, amount]) => (
            <tr key={cause}>
              <th scope="row">{CAUSES[cause] ?? cause}</th>
              <td className={numeric}>{amount.toFixed(1)}</td>
            </tr>
          ))}
        </tbody>
      </TableFrame>
      <TableFrame label="Replicas that cannot use all idle GPUs">
        <thead>
          <tr>
            <th scope="col">Replicas</th>
            <th scope="col" className={numeric}>
              Of all
            </th>
            <th scope="col" className={numeric}>
              Can use
            </th>
          </tr>
        </thead>
        <tbody>
          {kinds.slice(0, ROWS_MOST).map((kind) => (
            <tr key={kindText(kind)}>
              <th scope="row">{kindText(kind)}</th>
              <td className={numeric}>{(100 * kind.frequency).toFixed(1)} %</td>
              <td className={numeric}>
                {kind.usable.toFixed(1)} of {newest.idle.toFixed(1)}
              </td>
            </tr>
          ))}
        </tbody>
      </TableFrame>
      <p>
        Most fragmented:{" "}
        {newest.nodes.slice(0, ROWS_MOST).map(({ name, idle, fragmented }, place) => (
          <span key={name}>
            {place > 0 && ", "}
            <Link to="/nodes/$name" params={{ name }}>
              {name}
            </Link>{" "}
            ({fragmented.toFixed(1)} of {counted(idle, "GPU")})
          </span>
        ))}
      </p>
    </>
  );
}

/** What a kind of replica adds to the average. */
const lost = ({ frequency, usable }: FragmentedKind, { idle }: FragmentationNow) => frequency * (idle - usable);

function kindText({ gpus: amount, cpus, gpu_models: models }: FragmentedKind): string {
  const resources = [counted(amount, "GPU"), ...(cpus > 0 ? [counted(cpus, "CPU")] : [])].join(" and ");
  return models.length > 0 ? `${resources} on ${models.join(" or ")}` : resources;
}

const fragmentationQuery = (minutes: number) =>
  queryOptions({
    queryKey: ["cluster", "fragmentation", minutes],
    queryFn: ({ signal }) => answerOf(api.GET("/cluster/fragmentation", { params: { query: { minutes } }, signal })),
    refetchInterval: 60_000,
  });
