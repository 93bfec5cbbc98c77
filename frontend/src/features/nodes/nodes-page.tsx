import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useMemo, useState } from "react";

import { answerOf, api, once } from "@/api/client";
import { nodesQuery } from "@/api/queries";
import type { Node } from "@/api/schema";
import { bytes, count } from "@/components/format";
import { useNow } from "@/components/now";
import { useSentForm } from "@/components/sent-form";
import { useSession } from "@/components/session";
import { Badge, nodeLook, verdictLook } from "@/components/state-badge";
import { UseBar } from "@/components/use-bar";
import { AgentDialog } from "@/features/nodes/agent-dialog";
import styles from "@/features/nodes/nodes.module.css";
import {
  checkTitle,
  gpusOfNode,
  isolationWarning,
  loanText,
  runsUnisolated,
  worstVerdict,
} from "@/features/nodes/words";
import { useNewest } from "@/live/live";
import { Button } from "@/ui/button";
import { type Column, DataTable } from "@/ui/data-table";
import { FormDialog } from "@/ui/dialog";
import { EmptyState } from "@/ui/feedback";
import { TextField, TextInput } from "@/ui/field";
import { muted, oneLine, PageLayout, Panel } from "@/ui/layout";

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
        <DataTable
          label="Nodes"
          rows={shown}
          limit={MOST_ROWS}
          rowKey={({ name }) => name}
          query={query}
          skeletonLines={8}
          columns={COLUMNS}
          empty={
            nodes.length === 0 ? (
              <EmptyState title="No nodes yet">
                {me.is_operator
                  ? "Add a node, then start its agent with the configuration file of the node."
                  : "An operator adds nodes."}
              </EmptyState>
            ) : (
              <EmptyState
                title="No node matches"
                action={<Button onClick={() => setWanted("")}>Clear the filter</Button>}
              />
            )
          }
        />
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

const COLUMNS: readonly Column<Node>[] = [
  {
    header: "Node",
    isRowHeader: true,
    className: oneLine,
    sortBy: ({ name }) => name,
    cell: ({ name }) => (
      <Link to="/nodes/$name" params={{ name }}>
        {name}
      </Link>
    ),
  },
  {
    header: "State",
    sortBy: (node) => nodeLook(node).text,
    cell: (node) => (
      <>
        <StateBadge node={node} />
        <HealthBadge node={node} />
        <UnisolatedBadge node={node} />
      </>
    ),
  },
  { header: "Rack", className: oneLine, sortBy: ({ rack }) => rack, cell: ({ rack }) => rack },
  { header: "GPU model", sortBy: ({ gpu_model: model }) => model, cell: ({ gpu_model: model }) => model ?? "–" },
  {
    header: "GPUs in use",
    sortBy: gpusInUse,
    cell: (node) => (
      <>
        {node.gpus.length > 0 ? <UseBar used={gpusInUse(node)} total={node.gpus.length} /> : gpusOfNode(node)}
        <Unhealthy node={node} />
      </>
    ),
  },
  {
    header: "CPUs held",
    headerTitle: "By the jobs there, of all that the node has",
    className: oneLine,
    sortBy: ({ cpus_held: held }) => held,
    cell: ({ cpus_held: held, cpus }) => (cpus > 0 ? `${count(held)} of ${count(cpus)}` : "–"),
  },
  {
    header: "Memory held",
    headerTitle: "By the jobs there, of all that the node has",
    className: oneLine,
    sortBy: ({ memory_bytes_held: held }) => held,
    cell: ({ memory_bytes_held: held, memory_bytes: memory }) =>
      memory > 0 ? `${held > 0 ? bytes(held) : 0} of ${bytes(memory)}` : "–",
  },
  { header: "Agent", className: muted, cell: ({ agent_version: version }) => version || "–" },
];

function gpusInUse(node: Node): number {
  return node.gpus.filter((gpu) => gpu.state === "held").length;
}

/** How a node's state and the serving pool whose node it is make a phrase. */
const POOL_WORD = { serving: "pool", lent: "by pool", returning: "to pool" } as const;

/** That of a loan leads to who lent the node, and until when. */
function StateBadge({ node }: { node: Node }) {
  const text = loanText(node, useNow());
  const badge = <Badge look={nodeLook(node)} />;
  if (text === null) return badge;
  return (
    <>
      <Link to="/nodes/$name" params={{ name: node.name }} title={text}>
        {badge}
      </Link>{" "}
      {node.loan && (
        <span className={muted}>
          {POOL_WORD[node.loan.state]} {node.loan.pool}
        </span>
      )}
    </>
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

/** Makes the node known and shows how to start its agent. */
export function AddNode({ onClose }: { onClose: () => void }) {
  const queries = useQueryClient();
  const add = useMutation({
    mutationFn: ({ name, rack }: { name: string; rack: string }) =>
      answerOf(api.POST("/nodes", { params: { header: once() }, body: rack ? { name, rack } : { name } })),
    onSuccess: () => void queries.invalidateQueries({ queryKey: ["nodes"] }),
  });
  const { sending, field } = useSentForm({ name: "", rack: "" }, add);
  if (add.data?.agent) {
    return <AgentDialog title={`Start the agent of ${add.data.name}`} setUp={add.data.agent} onClose={onClose} />;
  }
  return (
    <FormDialog
      title="Add a node"
      description="Its GPUs appear when its agent reports for the first time."
      sending={sending}
      action="Add the node"
      onClose={onClose}
    >
      <TextField
        {...field("name")}
        label="Name"
        hint="Letters, digits, '-' and '.', such as gpu-17"
        autoFocus
        required
      />
      <TextField {...field("rack")} label="Rack" hint="Nodes of one rack are near each other" placeholder="rack-1" />
    </FormDialog>
  );
}
