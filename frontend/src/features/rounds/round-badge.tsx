import { CircleCheck, CircleX, ShieldAlert } from "lucide-react";

import type { Round } from "@/api/schema";
import { Badge, Tag } from "@/components/state-badge";

const LOOKS = {
  applied: { tone: "running", icon: CircleCheck, text: "Applied" },
  fenced: { tone: "off", icon: ShieldAlert, text: "Fenced" },
  failed: { tone: "failed", icon: CircleX, text: "Failed" },
} as const;

export function RoundBadge({ round }: { round: Round }) {
  return (
    <>
      <Badge look={LOOKS[round.state]} /> {Object.keys(round.degraded).length > 0 && <Tag>degraded</Tag>}
    </>
  );
}
