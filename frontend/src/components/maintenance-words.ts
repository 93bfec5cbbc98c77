/** What is said of a maintenance window wherever one matters. Pure; the present is an argument. */

import type { Job, MaintenanceWindow, Node } from "@/api/schema";
import { clockAhead, duration } from "@/components/format";

type Span = Pick<MaintenanceWindow, "starts_at" | "ends_at">;

/** "in 3 h", "for another 20 min": how far a window is. */
export function distance({ starts_at: start, ends_at: end }: Span, now: number): string {
  const seconds = (Date.parse(start) - now) / 1000;
  return seconds > 0 ? `in ${duration(seconds)}` : `for another ${duration((Date.parse(end) - now) / 1000)}`;
}

/** That a window closes the node, or will; null where none is announced. */
export function nodeMaintenance({ maintenance: window }: Pick<Node, "maintenance">, now: number): string | null {
  if (!window) return null;
  const reason = window.reason.replace(/\.$/, "");
  if (window.state !== "announced") {
    return `In maintenance until ${clockAhead(window.ends_at, now)}: ${reason}. Then it accepts jobs again automatically.`;
  }
  const when = `${clockAhead(window.starts_at, now)}, ${distance(window, now)}`;
  return `Closes for maintenance at ${when}: ${reason}. Until then, only jobs that end in time start.`;
}

/** That a node of the job closes; null where none does. */
export function jobMaintenance({ maintenance: window }: Pick<Job, "maintenance">, now: number): string | null {
  if (!window) return null;
  const when = `${clockAhead(window.starts_at, now)}, ${distance(window, now)}`;
  return (
    `Its node ${window.node} closes for maintenance at ${when}: ${window.reason.replace(/\.$/, "")}.` +
    " A job that still runs then is asked to write a checkpoint, and continues elsewhere."
  );
}
