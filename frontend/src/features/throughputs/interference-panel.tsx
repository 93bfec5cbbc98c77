import { useQuery } from "@tanstack/react-query";

import type { Interference } from "@/api/schema";
import { interferenceQuery } from "@/api/throughput-queries";
import { counted } from "@/components/format";
import { muted, Panel, Stack } from "@/ui/layout";

/** The rules by which jobs that nobody measured together are expected to slow each other down. */
export function InterferencePanel() {
  const found = useQuery(interferenceQuery).data;
  if (!found) return null;
  return (
    <Panel title="Pairs that were not measured">
      <Stack>
        <p className={muted}>{standing(found)}</p>
        {found.rules.length > 0 && (
          <ol>
            {found.rules.map((rule) => (
              <li key={rule}>{rule}</li>
            ))}
          </ol>
        )}
      </Stack>
    </Panel>
  );
}

/** How far the rules can be trusted, in a sentence or two. */
export function standing({ pairs, least_pairs, error, error_of_mean }: Interference): string {
  if (error === null || error_of_mean === null)
    return `Nothing is foretold yet: that takes ${counted(least_pairs, "pair")} of applications that were measured while they shared GPUs, and whose profiles are known.`;
  const [off, ofMean] = [error, error_of_mean].map((part) => `${(part * 100).toFixed(1)} points`);
  return `How much of its speed alone is left of a job beside another, fitted on ${counted(pairs, "measured pair")}. Off by ${off} on average for pairs that were held out; their mean alone would be off by ${ofMean}. Policies go by it where a virtual cluster shares freely.`;
}
