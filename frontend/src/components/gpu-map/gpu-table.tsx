import { Link } from "@tanstack/react-router";

import { describePlot, type Rack } from "@/components/gpu-map/garden";
import { Badge, nodeLook } from "@/components/state-badge";
import { numeric, oneLine, TableFrame } from "@/ui/layout";

const MOST_ROWS = 300;

/** The map's content for those who do not see or point at it. */
export function GpuTable({ racks }: { racks: readonly Rack[] }) {
  const beds = racks.flatMap((rack) => rack.beds);
  return (
    <>
      <TableFrame label="GPUs by node">
        <thead>
          <tr>
            <th>Node</th>
            <th>Rack</th>
            <th>Model</th>
            <th>State</th>
            <th className={numeric}>In use</th>
            <th>Jobs</th>
          </tr>
        </thead>
        <tbody>
          {beds.slice(0, MOST_ROWS).map((bed) => {
            const jobs = new Map(bed.plots.flatMap(({ job }) => (job ? [[job.id, job] as const] : [])));
            const used = bed.plots.filter((plot) => plot.gpu.state === "held").length;
            return (
              <tr key={bed.node.name} title={bed.plots.map((plot) => describePlot(bed, plot)).join("\n")}>
                <td className={oneLine}>
                  <Link to="/nodes/$name" params={{ name: bed.node.name }}>
                    {bed.node.name}
                  </Link>
                </td>
                <td>{bed.node.rack}</td>
                <td>{bed.node.gpu_model}</td>
                <td>
                  <Badge look={nodeLook(bed.node)} />
                </td>
                <td className={numeric}>
                  {used} of {bed.plots.length}
                </td>
                <td>
                  {[...jobs.values()].map((job, index) => (
                    <span key={job.id}>
                      {index > 0 && ", "}
                      <Link to="/jobs/$id" params={{ id: String(job.id) }}>
                        {job.name} #{job.id}
                      </Link>
                    </span>
                  ))}
                </td>
              </tr>
            );
          })}
        </tbody>
      </TableFrame>
      {beds.length > MOST_ROWS && (
        <p>
          The first {MOST_ROWS} of {beds.length} nodes. The rest is under Nodes.
        </p>
      )}
    </>
  );
}
