import {
  ArrowRightLeft,
  Ban,
  CircleCheck,
  CircleDashed,
  CirclePause,
  CirclePlay,
  CircleX,
  Clock,
  LoaderCircle,
  OctagonX,
  Scaling,
  TriangleAlert,
  Wrench,
  type LucideIcon,
} from "lucide-react";

import type { Attempt, Job, MaintenanceWindow, MapNode, NodeCheck, Reservation } from "@/api/schema";
import styles from "@/components/state-badge.module.css";

type Tone = "waiting" | "starting" | "running" | "stopping" | "done" | "failed" | "off";

interface Look {
  tone: Tone;
  icon: LucideIcon;
  text: string;
}

const WAITING: Look = { tone: "waiting", icon: Clock, text: "Queued" };
const RUNNING: Look = { tone: "running", icon: CirclePlay, text: "Running" };
const STARTING: Look = { tone: "starting", icon: LoaderCircle, text: "Starting" };
const STOPPING: Look = { tone: "stopping", icon: OctagonX, text: "Stopping" };
const SUCCEEDED: Look = { tone: "done", icon: CircleCheck, text: "Succeeded" };
const FAILED: Look = { tone: "failed", icon: CircleX, text: "Failed" };
const CANCELLED: Look = { tone: "off", icon: Ban, text: "Cancelled" };

/** A job's state as people see it: the phase says more than the state while it lives. */
export function jobLook(job: Pick<Job, "state" | "phase" | "cancelling">): Look {
  if (job.state === "succeeded") return SUCCEEDED;
  if (job.state === "failed") return FAILED;
  if (job.state === "cancelled") return CANCELLED;
  if (job.cancelling) return { ...STOPPING, text: "Cancelling" };
  switch (job.phase) {
    case "held":
      return { tone: "off", icon: CirclePause, text: "Held" };
    case "planned":
      return { tone: "starting", icon: CircleDashed, text: "Planned" };
    case "starting":
      return STARTING;
    case "stopping":
      return STOPPING;
    case "running":
      return RUNNING;
    case "waiting":
    case "ended":
      return job.state === "running" ? RUNNING : WAITING;
  }
}

/** What took over at once, where an attempt was stopped for it: nothing was taken from its job. */
const TAKEN_OVER: Partial<Record<Attempt["stop_cause"], { during: string; after: string; icon: LucideIcon }>> = {
  resized: { during: "Resizing", after: "Resized", icon: Scaling },
  migrated: { during: "Moving", after: "Moved", icon: ArrowRightLeft },
};

export function attemptLook(attempt: Pick<Attempt, "state" | "outcome" | "stop_cause">): Look {
  const takenOver = TAKEN_OVER[attempt.stop_cause];
  switch (attempt.state) {
    case "planned":
      return { tone: "starting", icon: CircleDashed, text: "Planned" };
    case "starting":
      return STARTING;
    case "running":
      return RUNNING;
    case "stopping":
      return takenOver ? { tone: "stopping", icon: takenOver.icon, text: takenOver.during } : STOPPING;
    case "ended":
      break;
  }
  switch (attempt.outcome) {
    case "succeeded":
      return SUCCEEDED;
    case "failed":
      return FAILED;
    case "preempted":
      if (takenOver) return { tone: "off", icon: takenOver.icon, text: takenOver.after };
      return { tone: "stopping", icon: OctagonX, text: "Preempted" };
    case "lost":
      return { tone: "failed", icon: CircleX, text: "Lost" };
    case "cancelled":
    case "":
      return CANCELLED;
  }
}

type NodeFacts = Pick<
  MapNode,
  "state" | "cordoned" | "draining" | "drained" | "drain_deadline" | "loan" | "maintenance"
>;

export function nodeLook(node: NodeFacts): Look {
  if (node.state === "lost") return { tone: "failed", icon: CircleX, text: "Lost" };
  if (node.state === "new") return { tone: "starting", icon: CircleDashed, text: "Never seen" };
  if (node.maintenance && node.maintenance.state !== "announced") {
    return { tone: "off", icon: Wrench, text: "Maintenance" };
  }
  if (node.drained) return { tone: "off", icon: CirclePause, text: "Drained" };
  if (node.drain_deadline && !node.cordoned) return { tone: "stopping", icon: Clock, text: "Closing" };
  if (node.draining) return { tone: "stopping", icon: OctagonX, text: "Draining" };
  if (node.cordoned) return { tone: "off", icon: CirclePause, text: "Cordoned" };
  switch (node.loan?.state) {
    case "serving":
      return { tone: "off", icon: CirclePause, text: "Serving" };
    case "returning":
      return { tone: "stopping", icon: Clock, text: "Returning" };
    case "lent":
      return { tone: "running", icon: CircleCheck, text: "Lent" };
  }
  return { tone: "running", icon: CircleCheck, text: "Ready" };
}

/** A reservation's state. */
export function reservationLook({ state }: Pick<Reservation, "state">): Look {
  switch (state) {
    case "announced":
      return { tone: "waiting", icon: Clock, text: "Announced" };
    case "in_force":
      return { tone: "running", icon: CircleCheck, text: "In force" };
    case "over":
      return { tone: "done", icon: CircleCheck, text: "Over" };
    case "cancelled":
      return CANCELLED;
  }
}

/** A maintenance window's state. */
export function windowLook({ state }: Pick<MaintenanceWindow, "state">): Look {
  switch (state) {
    case "announced":
      return { tone: "waiting", icon: Clock, text: "Announced" };
    case "draining":
      return { tone: "stopping", icon: OctagonX, text: "Draining" };
    case "open":
      return { tone: "off", icon: Wrench, text: "Under way" };
    case "over":
      return { tone: "done", icon: CircleCheck, text: "Over" };
    case "cancelled":
      return CANCELLED;
  }
}

export function verdictLook(verdict: NodeCheck["verdict"]): Look {
  switch (verdict) {
    case "ok":
      return { tone: "running", icon: CircleCheck, text: "OK" };
    case "warning":
      return { tone: "waiting", icon: TriangleAlert, text: "Warning" };
    case "failed":
      return { ...FAILED, text: "Failed" };
  }
}

export function Badge({ look }: { look: Look }) {
  const Icon = look.icon;
  return (
    <span className={styles.badge} data-tone={look.tone}>
      <Icon size={13} aria-hidden />
      {look.text}
    </span>
  );
}

/** A plain mark, for words that are not a state. */
export function Tag({ children, title }: { children: React.ReactNode; title?: string }) {
  return (
    <span className={styles.tag} title={title}>
      {children}
    </span>
  );
}
