import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useMemo, useState } from "react";

import { nodesQuery } from "@/api/queries";
import type { Node } from "@/api/types";
import { bytes } from "@/components/format";
import { useSession } from "@/components/session";
import { Badge, nodeLook, verdictLook } from "@/components/state-badge";
import { UseBar } from "@/components/use-bar";
import { AddNode } from "@/features/nodes/add-node";
import { checkTitle, worstVerdict } from "@/features/nodes/health";
import { isolationWarning, runsUnisolated } from "@/features/nodes/isolation";
import { useNewest } from "@/live/live";
import { Button } from "@/ui/button";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { TextInput } from "@/ui/field";
import { muted, numeric, oneLine, PageLayout, Panel, TableFrame } from "@/ui/layout";
import styles from "@/features/nodes/nodes.module.css";

const MOST_ROWS = 500;

export function NodesPage() {
  const me = useSession();
  const query = useQuery(nodesQuery);
  const nodes = useNewest("node", query.data);
  const [wanted, setWanted] = useState("");
  const [adding, setAdding] = useState(false);
  const shown = useMemo(() => nodes.filter((node) => matches(node, wanted)), [nodes, wanted]);
  return (
    <PageLayout
      title="Nodes"
      actions={
        me.is_operator && (
          <Button look="primary" icon={<Plus size={15} aria-hidden />} onClick={() => setAdding(true)}>
            Add a node
          </Button>
        )
      }
    >
      <TextInput
        type="search"
        className={styles.search}
        aria-label="Filter nodes"
        placeholder="Filter by name, rack, model, state or health"
        value={wanted}
        onChange={(event) => setWanted(event.target.value)}
      />
      <Panel flush>
        {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
        {query.isPending ? (
          <SkeletonLines count={8} />
        ) : nodes.length === 0 ? (
          <EmptyState title="No nodes yet">
            {me.is_operator
              ? "Add one, and start the node agent on it with the token you are given."
              : "An operator adds nodes."}
          </EmptyState>
        ) : shown.length === 0 ? (
          <EmptyState
            title="No node matches"
            action={<Button onClick={() => setWanted("")}>Clear the filter</Button>}
          />
        ) : (
          <NodeTable nodes={shown.slice(0, MOST_ROWS)} />
        )}
        {shown.length > MOST_ROWS && (
          <p className={styles.more}>
            The first {MOST_ROWS} of {shown.length}. Filter to see others.
          </p>
        )}
      </Panel>
      {adding && <AddNode onClose={() => setAdding(false)} />}
    </PageLayout>
  );
}

function matches(node: Node, wanted: string): boolean {
  const words = [
    node.name,
    node.rack,
    node.gpu_model ?? "",
    nodeLook(node).text,
    ...node.health.map(({ verdict }) => verdict),
  ]
    .join(" ")
    .toLowerCase();
  return wanted
    .toLowerCase()
    .split(/\s+/)
    .every((word) => words.includes(word));
}

function NodeTable({ nodes }: { nodes: readonly Node[] }) {
  return (
    <TableFrame label="Nodes">
      <thead>
        <tr>
          <th>Node</th>
          <th>State</th>
          <th>Rack</th>
          <th>GPU model</th>
          <th>GPUs in use</th>
          <th className={numeric}>CPUs</th>
          <th className={numeric}>Memory</th>
          <th>Agent</th>
        </tr>
      </thead>
      <tbody>
        {nodes.map((node) => (
          <tr key={node.name}>
            <td className={oneLine}>
              <Link to="/nodes/$name" params={{ name: node.name }}>
                {node.name}
              </Link>
            </td>
            <td>
              <Badge look={nodeLook(node)} />
              <HealthBadge node={node} />
              <UnisolatedBadge node={node} />
            </td>
            <td className={oneLine}>{node.rack}</td>
            <td>{node.gpu_model ?? "–"}</td>
            <td>
              <UseBar used={node.gpus.filter((gpu) => gpu.state === "held").length} total={node.gpus.length} />
              <Unhealthy node={node} />
            </td>
            <td className={numeric}>{node.cpus || "–"}</td>
            <td className={`${numeric} ${oneLine}`}>{node.memory_bytes > 0 ? bytes(node.memory_bytes) : "–"}</td>
            <td className={muted}>{node.agent_version || "–"}</td>
          </tr>
        ))}
      </tbody>
    </TableFrame>
  );
}

/** Only where something is wrong: that all is well need not be said of every node. */
function HealthBadge({ node }: { node: Node }) {
  const verdict = worstVerdict(node.health);
  if (verdict === null || verdict === "ok") return null;
  const wrong = node.health.filter((check) => check.verdict !== "ok");
  return (
    <span className={styles.health} title={wrong.map((check) => `${checkTitle(check)}: ${check.message}`).join("\n")}>
      <Badge look={{ ...verdictLook(verdict), text: wrong.map(checkTitle).join(", ") }} />
    </span>
  );
}

function UnisolatedBadge({ node }: { node: Node }) {
  const text = isolationWarning(node);
  if (text === null) return null;
  return (
    <span className={styles.health} title={text}>
      <Badge look={{ ...verdictLook("warning"), text: runsUnisolated(node) ? "Not isolated" : "Partly isolated" }} />
    </span>
  );
}

function Unhealthy({ node }: { node: Node }) {
  const broken = node.gpus.filter((gpu) => !gpu.healthy).length;
  return broken > 0 ? <span className={styles.broken}>{broken} unhealthy</span> : null;
}
