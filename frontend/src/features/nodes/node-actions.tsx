import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { KeyRound, Trash2 } from "lucide-react";
import { useState } from "react";

import { answerOf, api } from "@/api/client";
import type { AgentSetUp, Node, NodeWithToken } from "@/api/schema";
import { AgentDialog } from "@/features/nodes/agent-dialog";
import { live } from "@/live/live";
import { Button } from "@/ui/button";
import { Confirm } from "@/ui/confirm";
import { onDemand } from "@/ui/on-demand";
import { useSay } from "@/ui/toasts";

const CordonDialog = onDemand(async () => (await import("@/features/nodes/withdraw-dialog")).CordonDialog);
const DrainDialog = onDemand(async () => (await import("@/features/nodes/withdraw-dialog")).DrainDialog);

type Act = "resume" | "token" | "remove" | "lend" | "return";

const QUESTIONS: Record<"token" | "remove", { title: string; description: string; action: string }> = {
  token: {
    title: "Replace the node's token?",
    description: "The present token stops working: the agent cannot report until it has the new one.",
    action: "Replace the token",
  },
  remove: {
    title: "Remove this node?",
    description: "You can remove a node only if it never ran a job and does not report.",
    action: "Remove",
  },
};

/** What an operator can do with a node. */
export function NodeActions({ node }: { node: Node }) {
  const say = useSay();
  const navigate = useNavigate();
  const queries = useQueryClient();
  const [asking, setAsking] = useState<keyof typeof QUESTIONS | null>(null);
  const [withdrawing, setWithdrawing] = useState<"cordon" | "drain" | null>(null);
  const [setUp, setSetUp] = useState<AgentSetUp | null>(null);
  const act = useMutation({
    mutationFn: (what: Act) => perform(node.name, what),
    onSuccess: async (answer, what) => {
      if (answer) live.apply({ type: "fetched", kind: "node", objects: [answer], since: live.current().clock });
      if (answer && "agent" in answer) setSetUp(answer.agent);
      if (what !== "remove") return;
      await queries.invalidateQueries({ queryKey: ["nodes"] });
      await navigate({ to: "/nodes" });
    },
    onError: (error) => say("failed", error.message),
    onSettled: () => setAsking(null),
  });
  const isAway = node.state !== "ready";
  return (
    <>
      {node.withdrawn && (
        <Button look="primary" busy={act.isPending && asking === null} onClick={() => act.mutate("resume")}>
          Resume
        </Button>
      )}
      {(!node.cordoned || node.withdrawn?.returns_itself) && (
        <Button onClick={() => setWithdrawing("cordon")}>Cordon</Button>
      )}
      {node.loan && node.loan.state !== "lent" && (
        <Button onClick={() => act.mutate("lend")}>{node.loan.state === "returning" ? "Lend on" : "Lend"}</Button>
      )}
      {node.loan?.state === "lent" && <Button onClick={() => act.mutate("return")}>Ask back</Button>}
      {(!node.draining || node.drain_deadline) && <Button onClick={() => setWithdrawing("drain")}>Drain</Button>}
      <Button icon={<KeyRound size={14} aria-hidden />} onClick={() => setAsking("token")}>
        New token
      </Button>
      {isAway && (
        <Button look="danger" icon={<Trash2 size={14} aria-hidden />} onClick={() => setAsking("remove")}>
          Remove
        </Button>
      )}
      {withdrawing === "cordon" && <CordonDialog node={node} onClose={() => setWithdrawing(null)} />}
      {withdrawing === "drain" && <DrainDialog node={node} onClose={() => setWithdrawing(null)} />}
      {asking && (
        <Confirm
          open
          onClose={() => setAsking(null)}
          {...QUESTIONS[asking]}
          busy={act.isPending}
          onConfirm={() => act.mutate(asking)}
        />
      )}
      {setUp && <AgentDialog title={`New token of ${node.name}`} setUp={setUp} onClose={() => setSetUp(null)} />}
    </>
  );
}

function perform(name: string, what: Act): Promise<Node | NodeWithToken | undefined> {
  const params = { path: { name } };
  switch (what) {
    case "resume":
      return answerOf(api.PATCH("/nodes/{name}", { params, body: { cordoned: false } }));
    case "token":
      return answerOf(api.POST("/nodes/{name}/token", { params }));
    case "lend":
      return answerOf(api.POST("/nodes/{name}/loan", { params, body: {} }));
    case "return":
      return answerOf(api.POST("/nodes/{name}/return", { params, body: {} }));
    case "remove":
      return answerOf(api.DELETE("/nodes/{name}", { params }));
  }
}
