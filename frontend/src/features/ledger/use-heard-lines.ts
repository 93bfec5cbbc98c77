import { useEffect, useState } from "react";

import type { Line as LedgerLine } from "@/api/schema";
import { live } from "@/live/live";

/** What is kept of lines that come on without end; older ones are in the list that was fetched. */
const MOST_HEARD = 500;

/** Lines that were written since the page was opened. */
export function useHeardLines(): readonly LedgerLine[] {
  const [lines, setLines] = useState<readonly LedgerLine[]>([]);
  useEffect(
    () =>
      live.subscribeAside((message) => {
        if (message.type === "ledger") setLines((known) => [...known, ...message.lines].slice(-MOST_HEARD));
      }),
    [],
  );
  return lines;
}
