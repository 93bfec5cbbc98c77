import { Wrench } from "lucide-react";

import type { Job, Node } from "@/api/schema";
import { jobMaintenance, nodeMaintenance } from "@/components/maintenance-words";
import { useNow } from "@/components/now";
import { Notice } from "@/ui/feedback";

export function NodeMaintenanceNotice({ node }: { node: Node }) {
  return <WindowNotice text={nodeMaintenance(node, useNow())} />;
}

export function JobMaintenanceNotice({ job }: { job: Job }) {
  return <WindowNotice text={jobMaintenance(job, useNow())} />;
}

function WindowNotice({ text }: { text: string | null }) {
  return text && <Notice icon={<Wrench size={16} aria-hidden />}>{text}</Notice>;
}
