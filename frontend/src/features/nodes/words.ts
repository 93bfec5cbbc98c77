/** What is said of a node: what its health checks say, in one verdict, and what keeps its jobs apart. */

import type { Node, NodeCheck } from "@/api/schema";
import { ago, bytes, clockAhead, duration } from "@/components/format";

type Verdict = NodeCheck["verdict"];

const BY_BADNESS: readonly Verdict[] = ["ok", "warning", "failed"];

/** "8 × V100", "no GPUs"; of a node that has not reported yet, that. */
export function gpusOfNode({ gpus, gpu_model: model, state }: Pick<Node, "gpus" | "gpu_model" | "state">): string {
  if (gpus.length > 0 || model !== null) return `${gpus.length} × ${model ?? "unknown GPU"}`;
  return state === "new" ? "not reported yet" : "no GPUs";
}

/** The worst verdict of all checks; null while none has reported. */
export function worstVerdict(checks: readonly NodeCheck[]): Verdict | null {
  const places = checks.map(({ verdict }) => BY_BADNESS.indexOf(verdict));
  return places.length > 0 ? (BY_BADNESS[Math.max(...places)] ?? null) : null;
}

/** The checks, the worst first. */
export function worstFirst(checks: readonly NodeCheck[]): NodeCheck[] {
  return [...checks].sort((one, other) => BY_BADNESS.indexOf(other.verdict) - BY_BADNESS.indexOf(one.verdict));
}

/** "work_folder" as "Work folder", "gpu-0" as "GPU 0". */
export function checkTitle({ name, gpu }: Pick<NodeCheck, "name" | "gpu">): string {
  if (gpu !== null) return `GPU ${gpu}`;
  const text = name.replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** Who took the node out of service and why, and what is to come; null while it is in service. */
export function withdrawnText(node: Pick<Node, "withdrawn" | "cordoned" | "drain_deadline">, now: number) {
  const { withdrawn, drain_deadline: deadline } = node;
  if (!withdrawn) return null;
  const who = withdrawn.by === "health" ? "The platform" : withdrawn.by.replace(/^user /, "") || "An operator";
  const what = deadline ? "announced a drain" : "took it out of service";
  const since = withdrawn.since ? `, ${ago(withdrawn.since, now)}` : "";
  const sentences = [`${who} ${what}${since}${withdrawn.why ? `: ${withdrawn.why}` : ""}`];
  if (deadline) {
    const left = (Date.parse(deadline) - now) / 1000;
    const until = `Its jobs are moved away at ${clockAhead(deadline, now)}, in ${duration(left)}`;
    const meanwhile = node.cordoned ? "nothing new starts" : "only jobs that end by then start";
    sentences.push(`${until}; until then ${meanwhile}`);
  }
  if (withdrawn.returns_itself) sentences.push("It returns automatically after its checks have passed for a while");
  return sentences.map((sentence) => (sentence.endsWith(".") ? sentence : `${sentence}.`)).join(" ");
}

/** Whose node it is and whether jobs may use it, who said so, and until when; null of the cluster's own. */
export function loanText({ loan }: Pick<Node, "loan">, now: number): string | null {
  if (!loan) return null;
  const who = loan.by.replace(/^user /, "");
  const said = `${who ? ` by ${who}` : ""}${loan.why ? `: ${loan.why.replace(/\.$/, "")}` : ""}.`;
  switch (loan.state) {
    case "serving":
      return `Serving pool ${loan.pool} has this node: no job may use it until it is lent.`;
    case "lent": {
      const until = loan.until ? ` until ${clockAhead(loan.until, now)}` : "";
      return `Serving pool ${loan.pool} lends this node${until}${who ? ", lent" : ""}${said} The pool may recall it at any time.`;
    }
    case "returning": {
      const by = loan.return_by ? ` by ${clockAhead(loan.return_by, now)}` : "";
      return (
        `The node returns to serving pool ${loan.pool}${by}, asked back${said} Nothing new starts; elastic jobs that` +
        " can do without it shrink, others are stopped in time and go on elsewhere."
      );
    }
  }
}

type Isolated = Pick<Node, "isolation" | "isolation_level" | "health">;

/** Beside what keeps files apart: what is limited, or offered, by the name the agent gives it. */
const LIMITS: Record<string, string> = {
  cpu: "CPU",
  memory: "memory",
  processes: "processes",
  open_files: "open files",
  // What agents called it until 0.1.
  files: "open files",
  disk: "disk",
};

/** Whether jobs run there that nothing keeps from others' files. */
export function runsUnisolated({ isolation, isolation_level: level }: Isolated): boolean {
  return level === "none" && !isolation.required;
}

/** As whom jobs run there, and inside of what. */
export function isolationText({ isolation, isolation_level: level }: Isolated): string {
  if (level === "unknown") return "–";
  const container = isolation.container ? "; those with an image in a container" : "";
  if (level === "none" && isolation.required) return `Nothing isolates jobs, so none starts${container}`;
  const inside = {
    sandbox: "In a sandbox",
    landlock: "Kept to their files by Landlock",
    none: "Without isolation",
  };
  const who = isolation.user ? "as users of their tenants’" : "all as the agent’s user";
  return `${inside[level]}, ${who}${container}`;
}

/** What one job can take no more of than it may. */
export function limitsText({ isolation }: Pick<Node, "isolation">): string {
  const limited = Object.entries(LIMITS).flatMap(([name, text]) => (isolation[name] ? [text] : []));
  return limited.join(", ") || "–";
}

/** What the storage delivers that its jobs read from, and how much stays in its cache; empty: it says neither. */
export function storageText(node: Pick<Node, "storage_bandwidth" | "cache_bytes">): string {
  const speed = node.storage_bandwidth > 0 ? `${bytes(node.storage_bandwidth)}/s` : "";
  const cache = node.cache_bytes > 0 ? `cache ${bytes(node.cache_bytes)}` : "";
  return [speed, cache].filter(Boolean).join(", ");
}

/** How jobs are held to their parts of the node's GPUs. */
export function partsText({ enforcement }: Pick<Node, "enforcement">): string {
  return {
    enforced: "Enforced by the node",
    cooperative: "Cooperative: limits only jobs that ask for their time on the GPU",
    placement_only: "Placement only: nothing enforces the parts",
    "": "–",
  }[enforcement];
}

/** What an operator, and whoever runs jobs there, should know; null when there is nothing. */
export function isolationWarning(node: Isolated): string | null {
  const { isolation, isolation_level: level } = node;
  // Then no job starts, and the check says why.
  if (node.health.some(({ name, verdict }) => name === "isolation" && verdict === "failed")) return null;
  if (runsUnisolated(node)) {
    const can = isolation.user
      ? "Jobs see the processes of other jobs, and all files that every user of the machine may read."
      : "Jobs can read and change the files of other jobs and of the platform, and can end other jobs.";
    return `Nothing isolates the jobs on this node. ${can} Install bubblewrap, and let the agent’s configuration say sandbox: required.`;
  }
  if (level === "landlock" && isolation.signals === false) {
    return "This node’s kernel does not prevent a job from ending other tenants’ jobs and the agent: all run as one user, and Landlock prevents that only from Linux 6.12 on.";
  }
  return null;
}
