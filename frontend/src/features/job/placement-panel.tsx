import { Link } from "@tanstack/react-router";

import type { Job } from "@/api/types";
import { words } from "@/components/format";
import { EmptyState } from "@/ui/feedback";
import { Panel, TableFrame } from "@/ui/layout";

/** Which GPUs the gang has, and which ranks run where. */
export function PlacementPanel({ job }: { job: Job }) {
  const { attempt } = job;
  if (!attempt || attempt.state === "ended") {
    return (
      <Panel title="Placement">
        <EmptyState title="It holds no GPUs" />
      </Panel>
    );
  }
  return (
    <Panel title="Placement" flush>
      <TableFrame label="Placement">
        <thead>
          <tr>
            <th>Node</th>
            <th>{attempt.gpu_model} GPUs</th>
            <th>Ranks</th>
            <th>State</th>
          </tr>
        </thead>
        <tbody>
          {attempt.placement.map((part) => (
            <tr key={part.node}>
              <td>
                <Link to="/nodes/$name" params={{ name: part.node }}>
                  {part.node}
                </Link>
              </td>
              <td>{part.gpus.map((gpu) => gpu.index).join(", ")}</td>
              <td>{part.ranks.join(", ")}</td>
              <td>{words(part.state)}</td>
            </tr>
          ))}
        </tbody>
      </TableFrame>
    </Panel>
  );
}
