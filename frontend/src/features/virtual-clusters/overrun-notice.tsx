import type { VirtualCluster } from "@/api/types";
import { clockAhead } from "@/components/format";
import { useNow } from "@/components/now";
import { Notice } from "@/ui/feedback";

interface Props {
  policy: string;
  overrun: NonNullable<VirtualCluster["overrun"]>;
}

/** Says that a policy takes too long, since when, and who decides meanwhile. */
export function OverrunNotice({ policy, overrun }: Props) {
  const now = useNow();
  return (
    <Notice>
      Policy {policy} takes too long. Since {clockAhead(overrun.since, now)} a cheap one decides, in order of
      submission: {overrun.message}. Policy {policy} is tried again by itself.
    </Notice>
  );
}
