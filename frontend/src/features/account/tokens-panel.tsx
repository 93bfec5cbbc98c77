import { useQuery } from "@tanstack/react-query";
import { Plus } from "lucide-react";
import { useState } from "react";

import type { Token } from "@/api/schema";
import { tokensQuery, tokenTermsQuery } from "@/api/access-queries";
import { RevokeToken, TokenTable } from "@/components/tokens/token-table";
import { Button } from "@/ui/button";
import { EmptyState } from "@/ui/feedback";
import { Panel } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";

const CreateToken = onDemand(async () => (await import("@/features/account/token-dialogs")).CreateToken);
const RotateToken = onDemand(async () => (await import("@/features/account/token-dialogs")).RotateToken);

/** One's own API tokens. */
export function TokensPanel() {
  const query = useQuery(tokensQuery);
  const terms = useQuery(tokenTermsQuery);
  const [creating, setCreating] = useState(false);
  const [revoking, setRevoking] = useState<Token | null>(null);
  const [rotating, setRotating] = useState<Token | null>(null);
  return (
    <Panel
      title="API tokens"
      flush
      actions={
        <Button icon={<Plus size={14} aria-hidden />} disabled={!terms.data} onClick={() => setCreating(true)}>
          New token
        </Button>
      }
    >
      <TokenTable
        tokens={query.data}
        query={query}
        empty={<EmptyState title="No tokens">A token lets the allot command and your scripts act as you.</EmptyState>}
        onRevoke={setRevoking}
        onRotate={setRotating}
      />
      {creating && terms.data && <CreateToken terms={terms.data} onClose={() => setCreating(false)} />}
      {rotating && <RotateToken token={rotating} onClose={() => setRotating(null)} />}
      {revoking && <RevokeToken token={revoking} onClose={() => setRevoking(null)} />}
    </Panel>
  );
}
