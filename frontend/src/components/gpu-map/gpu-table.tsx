import { Link } from "@tanstack/react-router";

import { describePlot, jobsOn, type Bed, type Rack } from "@/components/gpu-map/garden";
import { Badge, nodeLook } from "@/components/state-badge";
import { DataTable, type Column } from "@/ui/data-table";
import { oneLine } from "@/ui/layout";

const MOST_ROWS = 300;

const COLUMNS: readonly Column<Bed>[] = [
  {
    header: "Node",
    isRowHeader: true,
    className: oneLine,
    cell: ({ node }) => (
      <Link to="/nodes/$name" params={{ name: node.name }}>
        {node.name}
      </Link>
    ),
  },
  { header: "Rack", cell: ({ node }) => node.rack },
  { header: "Model", cell: ({ node }) => node.gpu_model },
  { header: "State", cell: ({ node }) => <Badge look={nodeLook(node)} /> },
  {
    header: "In use",
    isNumeric: true,
    cell: ({ plots }) => `${plots.filter(({ gpu }) => gpu.state === "held").length} of ${plots.length}`,
  },
  { header: "Jobs", cell: (bed) => <Jobs bed={bed} /> },
];

/** The map's content for those who do not see or point at it. */
export function GpuTable({ racks }: { racks: readonly Rack[] }) {
  const beds = racks.flatMap((rack) => rack.beds);
  return (
    <>
      <DataTable
        label="GPUs by node"
        rows={beds}
        limit={MOST_ROWS}
        rowKey={({ node }) => node.name}
        rowAttributes={(bed) => ({ title: bed.plots.map((plot) => describePlot(bed, plot)).join("\n") })}
        columns={COLUMNS}
      />
      {beds.length > MOST_ROWS && (
        <p>
          The first {MOST_ROWS} of {beds.length} nodes. The rest is under Nodes.
        </p>
      )}
    </>
  );
}

function Jobs({ bed }: { bed: Bed }) {
  const jobs = new Map(bed.plots.flatMap(jobsOn).map((job) => [job.id, job]));
  return [...jobs.values()].map((job, index) => (
    <span key={job.id}>
      {index > 0 && ", "}
      <Link to="/jobs/$id" params={{ id: String(job.id) }}>
        {job.name} #{job.id}
      </Link>
    </span>
  ));
}
