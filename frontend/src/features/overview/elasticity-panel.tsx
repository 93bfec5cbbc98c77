import { queryOptions, useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { answerOf, api, once } from "@/api/client";
import type { ElasticityFigures, ElasticitySavings } from "@/api/schema";
import { count, counted, duration, moment } from "@/components/format";
import { Button } from "@/ui/button";
import { Segments } from "@/ui/choice";
import { EmptyState, ErrorNotice, Notice, Skeleton } from "@/ui/feedback";
import { muted, numeric, Panel, TableFrame } from "@/ui/layout";

const SPANS = [
  { value: "1", label: "1 day" },
  { value: "7", label: "7 days" },
] as const;

type Span = (typeof SPANS)[number]["value"];

/** What elasticity saved: the jobs of the last days simulated elastic and rigid. For operators. */
export function ElasticityPanel() {
  const queries = useQueryClient();
  const [span, setSpan] = useState<Span>("1");
  const query = useQuery(elasticitySavingsQuery);
  const ask = useMutation({
    mutationFn: () => askElasticitySavings(Number(span)),
    onSuccess: (asked) => queries.setQueryData(elasticitySavingsQuery.queryKey, asked),
  });
  const savings = query.data;
  const isWorkedOut = savings?.state === "waiting" || savings?.state === "running";
  return (
    <Panel
      title="Savings from elastic scaling (simulated)"
      actions={
        <>
          <Segments label="Jobs submitted in the last" value={span} options={SPANS} onChange={setSpan} />
          <Button busy={ask.isPending || isWorkedOut} onClick={() => ask.mutate()}>
            Simulate
          </Button>
        </>
      }
    >
      {ask.error && <ErrorNotice error={ask.error} />}
      {query.isError ? (
        <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />
      ) : query.isPending ? (
        <Skeleton height="8rem" />
      ) : !savings ? (
        <EmptyState title="Not simulated yet">
          The jobs of the last day or week are simulated twice: elastic as declared, and rigid at the GPUs that they
          request.
        </EmptyState>
      ) : (
        <Answer savings={savings} />
      )}
    </Panel>
  );
}

function Answer({ savings }: { savings: ElasticitySavings }) {
  const days = savings.days === 1 ? "day" : counted(savings.days, "day");
  const time = `the ${days} before ${moment(savings.asked_at)}`;
  if (savings.state === "failed") return <Notice>{savings.problem || "No answer."}</Notice>;
  if (savings.state !== "done") {
    return (
      <p role="status" className={muted}>
        The jobs of {time} are being simulated.
      </p>
    );
  }
  if (!savings.elastic || !savings.rigid) {
    return <EmptyState title="No elastic jobs in that time">That is {time}.</EmptyState>;
  }
  return (
    <>
      <p>
        {verdict(savings.elastic, savings.rigid)} Both are simulated, from the {counted(savings.jobs, "job")} of {time};{" "}
        {count(savings.elastic_jobs)} of them elastic, {count(savings.measured_jobs)} with measured scaling.
        {savings.left_out > 0 && ` Left out because they did not end: ${counted(savings.left_out, "job")}.`}
      </p>
      <Comparison elastic={savings.elastic} rigid={savings.rigid} />
      <p className={muted}>{savings.assumption}</p>
    </>
  );
}

/** Which completes jobs sooner, and by how much. */
function verdict(elastic: ElasticityFigures, rigid: ElasticityFigures): string {
  const saved = rigid.mean_completion_seconds - elastic.mean_completion_seconds;
  const part =
    rigid.mean_completion_seconds > 0 ? Math.round((100 * Math.abs(saved)) / rigid.mean_completion_seconds) : 0;
  if (part === 0) return "Elastic scaling did not change the mean completion time.";
  return `Elastic jobs complete ${duration(Math.abs(saved))} (${part} %) ${saved > 0 ? "sooner" : "later"} on average.`;
}

const ROWS: readonly (readonly [string, (figures: ElasticityFigures) => string])[] = [
  ["Mean completion time", (figures) => duration(figures.mean_completion_seconds)],
  ["Mean wait", (figures) => duration(figures.mean_wait_seconds)],
  ["GPU-hours", (figures) => figures.gpu_hours.toFixed(1)],
  ["Resizes", (figures) => count(figures.resizes)],
];

function Comparison({ elastic, rigid }: { elastic: ElasticityFigures; rigid: ElasticityFigures }) {
  return (
    <TableFrame label="Elastic and rigid, both simulated">
      <thead>
        <tr>
          <th scope="col">Simulated</th>
          <th scope="col" className={numeric}>
            Elastic
          </th>
          <th scope="col" className={numeric}>
            Rigid
          </th>
        </tr>
      </thead>
      <tbody>
        {ROWS.map(([label, text]) => (
          <tr key={label}>
            <th scope="row">{label}</th>
            <td className={numeric}>{text(elastic)}</td>
            <td className={numeric}>{text(rigid)}</td>
          </tr>
        ))}
      </tbody>
    </TableFrame>
  );
}

const LOOK_AGAIN_MS = 1000;

/** What was asked last; looked at again until it is answered. Null: nobody has asked yet. */
const elasticitySavingsQuery = queryOptions({
  queryKey: ["elasticity-savings"],
  queryFn: async ({ signal }) =>
    (await answerOf(api.GET("/elasticity-savings", { params: { query: { page_size: 1 } }, signal }))).results[0] ??
    null,
  refetchInterval: ({ state }) =>
    state.data?.state === "waiting" || state.data?.state === "running" ? LOOK_AGAIN_MS : false,
});

const askElasticitySavings = (days: number) =>
  answerOf(api.POST("/elasticity-savings", { params: { header: once() }, body: { days } }));
