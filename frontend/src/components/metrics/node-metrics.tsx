import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { nodeMetricsQuery } from "@/api/usage-queries";
import { MetricsPanel } from "@/components/metrics/metrics-panel";
import { SPANS, type Span } from "@/components/metrics/spans";
import { Segments } from "@/ui/choice";

const VIEWS = [
  { value: "node", label: "All GPUs" },
  { value: "gpu", label: "Each GPU" },
] as const;

/** What the machine and its GPUs did. */
export function NodeMetricsPanel({ name }: { name: string }) {
  const [span, setSpan] = useState<Span>("3600");
  const [by, setBy] = useState<(typeof VIEWS)[number]["value"]>("node");
  const query = useQuery(nodeMetricsQuery(name, { by, seconds: Number(span) }));
  return (
    <MetricsPanel
      query={query}
      choices={
        <>
          <Segments label="What is shown together" value={by} options={VIEWS} onChange={setBy} />
          <Segments label="Time span" value={span} options={SPANS} onChange={setSpan} />
        </>
      }
      empty="The node agent sends one about every ten seconds."
    />
  );
}
