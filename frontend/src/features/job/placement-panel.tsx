import { Link } from "@tanstack/react-router";

import type { Job } from "@/api/schema";
import { words } from "@/components/format";
import { DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { Panel } from "@/ui/layout";

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
      <DataTable
        label="Placement"
        rows={attempt.placement}
        rowKey={({ node }) => node}
        columns={[
          {
            header: "Node",
            isRowHeader: true,
            cell: ({ node }) => (
              <Link to="/nodes/$name" params={{ name: node }}>
                {node}
              </Link>
            ),
          },
          { header: `${attempt.gpu_model} GPUs`, cell: ({ gpus }) => gpus.map(({ index }) => index).join(", ") },
          { header: "Ranks", cell: ({ ranks }) => ranks.join(", ") },
          { header: "State", cell: ({ state }) => words(state) },
        ]}
      />
    </Panel>
  );
}
