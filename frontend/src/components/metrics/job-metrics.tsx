import { useQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";

import type { Job } from "@/api/schema";
import { jobMetricsQuery } from "@/api/usage-queries";
import { MetricsPanel } from "@/components/metrics/metrics-panel";
import { SPANS, type Span } from "@/components/metrics/spans";
import { Segments } from "@/ui/choice";

const VIEWS = [
  { value: "attempt", label: "Together" },
  { value: "gpu", label: "Each GPU" },
  { value: "rank", label: "Each rank" },
] as const;

const JOB_SPANS = [{ value: "all", label: "All" }, ...SPANS] as const;

/** What the job's attempts used; a dashed line marks where each began. */
export function JobMetricsPanel({ job }: { job: Job }) {
  const [span, setSpan] = useState<Span | "all">("all");
  const [by, setBy] = useState<(typeof VIEWS)[number]["value"]>("attempt");
  const seconds = span === "all" ? undefined : Number(span);
  const query = useQuery(jobMetricsQuery(job.id, { by, seconds }, job.state === "running"));
  const attempts = query.data?.attempts;
  const marks = useMemo(() => attempts?.map(({ started_at }) => Date.parse(started_at) / 1000) ?? [], [attempts]);
  return (
    <MetricsPanel
      query={query}
      choices={
        <>
          <Segments label="What is shown together" value={by} options={VIEWS} onChange={setBy} />
          <Segments label="Time span" value={span} options={JOB_SPANS} onChange={setSpan} />
        </>
      }
      empty="While a job runs, its nodes tell about every ten seconds what it uses. They are kept for a month."
      marks={marks}
    />
  );
}
