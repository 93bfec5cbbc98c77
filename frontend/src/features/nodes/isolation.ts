/** What keeps a node's jobs from one another and from the node, in words. */

import type { Node } from "@/api/schema";

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

/** What an operator, and whoever runs jobs there, should know; null when there is nothing. */
export function isolationWarning(node: Isolated): string | null {
  const { isolation, isolation_level: level } = node;
  // Then no job starts, and the check says why.
  if (node.health.some(({ name, verdict }) => name === "isolation" && verdict === "failed")) return null;
  if (runsUnisolated(node)) {
    const can = isolation.user
      ? "Jobs see one another’s processes and whatever all users of the machine may read."
      : "Jobs can read and change one another’s files and the platform’s, and end one another.";
    return `Nothing isolates the jobs on this node. ${can} Install bubblewrap, and let the agent’s configuration say sandbox: required.`;
  }
  if (level === "landlock" && isolation.signals === false) {
    return "This node’s kernel does not keep a job from ending other tenants’ jobs and the agent: all run as one user, and Landlock does so from Linux 6.12 on.";
  }
  return null;
}
