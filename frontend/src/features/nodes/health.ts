/** What the health checks of a node say, in words and in one verdict. */

import type { Node, NodeCheck } from "@/api/schema";
import { ago, clockAhead, duration } from "@/components/format";

type Verdict = NodeCheck["verdict"];

const BY_BADNESS: readonly Verdict[] = ["ok", "warning", "failed"];

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
  const what = deadline ? "announced that it is to be emptied" : "took it out of service";
  const since = withdrawn.since ? `, ${ago(withdrawn.since, now)}` : "";
  const sentences = [`${who} ${what}${since}${withdrawn.why ? `: ${withdrawn.why}` : ""}`];
  if (deadline) {
    const left = (Date.parse(deadline) - now) / 1000;
    const until = `Its jobs are moved away at ${clockAhead(deadline, now)}, in ${duration(left)}`;
    const meanwhile = node.cordoned ? "nothing new starts" : "only what will have ended by then is started";
    sentences.push(`${until}; until then ${meanwhile}`);
  }
  if (withdrawn.returns_itself) sentences.push("It returns by itself when its checks have been ok for a while");
  return sentences.map((sentence) => (sentence.endsWith(".") ? sentence : `${sentence}.`)).join(" ");
}
