import { Hourglass } from "lucide-react";

import type { Overrun } from "@/api/schema";
import { duration, secondsBetween } from "@/components/format";
import { useNow } from "@/components/now";
import { Notice } from "@/ui/feedback";

/** Says that the chosen policy does not decide at present, since when and why. */
export function OverrunNotice({ policy, overrun }: { policy: string; overrun: Overrun }) {
  const seconds = secondsBetween(overrun.since, null, useNow()) ?? 0;
  return (
    <Notice icon={<Hourglass size={16} aria-hidden />}>
      For {duration(seconds)} now order of submission has decided in place of {policy}: {overrun.message}. It is tried
      again by itself.
    </Notice>
  );
}
