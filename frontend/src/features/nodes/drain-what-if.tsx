import { HelpCircle } from "lucide-react";

import type { Node } from "@/api/schema";
import { WhatIfAnswer } from "@/components/what-if/answer";
import { useWhatIf } from "@/components/what-if/use-what-if";
import { Button } from "@/ui/button";
import { ErrorNotice } from "@/ui/feedback";
import { Panel, Stack } from "@/ui/layout";

/** Who would wait if the node were drained, or start sooner if it took work again. For operators. */
export function DrainWhatIf({ node }: { node: Node }) {
  const ask = useWhatIf();
  const cluster = node.cordoned ? { add_back: [node.name] } : { drain: [node.name] };
  return (
    <Panel
      title="What if"
      actions={
        <Button
          icon={<HelpCircle size={14} aria-hidden />}
          busy={ask.isPending}
          onClick={() => ask.mutate({ cluster })}
        >
          {node.cordoned ? "If it took work again?" : "If it were drained?"}
        </Button>
      }
    >
      <Stack>
        {ask.error && <ErrorNotice error={ask.error} />}
        {ask.data ? <WhatIfAnswer answer={ask.data} /> : <p>Says who would start later or sooner. Changes nothing.</p>}
      </Stack>
    </Panel>
  );
}
