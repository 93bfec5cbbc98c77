import { useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Plus } from "lucide-react";
import { useState } from "react";

import { accountsQuery } from "@/api/market-queries";
import { AccountsPanel } from "@/features/market/accounts-panel";
import { LoansPanel } from "@/features/market/loans-panel";
import { OffersPanel } from "@/features/market/offers-panel";
import { RulesPanel } from "@/features/market/rules-panel";
import { TransfersPanel } from "@/features/market/transfers-panel";
import { Button } from "@/ui/button";
import { Tabs } from "@/ui/choice";
import { PageLayout, Stack } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";

const OfferDialog = onDemand(async () => (await import("@/features/market/offer-dialog")).OfferDialog);

const route = getRouteApi("/market");
const TABS = ["offers", "rules", "credits"] as const;
type Tab = (typeof TABS)[number];

/** Where virtual clusters lend one another guaranteed GPUs and cells for a while, for credits or in return. */
export function MarketPage() {
  const { tab } = route.useSearch();
  const navigate = route.useNavigate();
  const accounts = useQuery(accountsQuery).data ?? [];
  const mine = accounts.filter(({ may_act: may }) => may).map(({ virtual_cluster: name }) => name);
  const [isOffering, setOffering] = useState(false);
  return (
    <PageLayout
      title="Market"
      lead="Virtual clusters lend each other guaranteed GPUs for a time. A loan ends automatically, and nothing is lent without its owner's offer or rule."
      actions={
        mine.length > 0 && (
          <Button look="primary" icon={<Plus size={15} aria-hidden />} onClick={() => setOffering(true)}>
            Offer
          </Button>
        )
      }
    >
      <Tabs<Tab>
        label="Parts of the market"
        value={TABS.find((each) => each === tab) ?? "offers"}
        onChange={(next) => void navigate({ search: next === "offers" ? {} : { tab: next }, replace: true })}
        tabs={[
          {
            value: "offers",
            label: "Offers and loans",
            content: () => (
              <Stack>
                <OffersPanel mine={mine} accounts={accounts} />
                <LoansPanel />
              </Stack>
            ),
          },
          { value: "rules", label: "Rules", content: () => <RulesPanel mine={mine} /> },
          {
            value: "credits",
            label: "Credits",
            content: () => (
              <Stack>
                <AccountsPanel />
                <TransfersPanel names={accounts.map(({ virtual_cluster: name }) => name)} />
              </Stack>
            ),
          },
        ]}
      />
      {isOffering && <OfferDialog mine={mine} onClose={() => setOffering(false)} />}
    </PageLayout>
  );
}
