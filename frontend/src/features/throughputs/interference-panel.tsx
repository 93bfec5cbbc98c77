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
    return `No predictions yet: they need ${counted(least_pairs, "pair")} of applications with known profiles that were measured while they shared GPUs.`;
  const [off, ofMean] = [error, error_of_mean].map((part) => `${(part * 100).toFixed(1)} points`);
  return `The speed of a job beside another, relative to alone, fitted on ${counted(pairs, "measured pair")}. The mean error for held-out pairs is ${off}; predicting their mean would give ${ofMean}. Policies use it where a virtual cluster shares freely.`;
}
