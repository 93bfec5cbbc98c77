import { useInfiniteQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { useState } from "react";

import type { Token } from "@/api/schema";
import { everybodysTokensQuery } from "@/api/access-queries";
import { RevokeToken, TokenTable } from "@/components/tokens/token-table";
import { TypedSearch } from "@/components/filter";
import { EmptyState } from "@/ui/feedback";
import { PageLayout, Panel } from "@/ui/layout";

const route = getRouteApi("/tokens");

/** Everybody's API tokens, for operators. */
export function TokensPage() {
  const { user = "" } = route.useSearch();
  const navigate = route.useNavigate();
  const query = useInfiniteQuery(everybodysTokensQuery(user));
  const [revoking, setRevoking] = useState<Token | null>(null);
  const tokens = query.data?.pages.flatMap((page) => page.results) ?? [];
  return (
    <PageLayout
      title="API tokens"
      lead="All users' tokens, newest first. Create yours under Account."
      actions={
        <TypedSearch
          label="User name"
          value={user}
          onChange={(wanted) => void navigate({ search: wanted ? { user: wanted } : {}, replace: true })}
        />
      }
    >
      <Panel flush>
        <TokenTable
          tokens={tokens}
          ofOthers
          query={query}
          empty={<EmptyState title={user ? `${user} has no tokens` : "No tokens"} />}
          onRevoke={setRevoking}
        />
      </Panel>
      {revoking && <RevokeToken token={revoking} onClose={() => setRevoking(null)} />}
    </PageLayout>
  );
}
