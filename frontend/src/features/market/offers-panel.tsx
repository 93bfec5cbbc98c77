import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { openOffersQuery, takeOffer, withdrawOffer } from "@/api/market-queries";
import type { CreditAccount, Offer } from "@/api/schema";
import { amount, creditsText, lotText } from "@/components/format";
import { useNow } from "@/components/now";
import { useDeed } from "@/features/market/use-deed";
import { offerTime, priceText } from "@/features/market/words";
import { Button } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { Dialog, DialogActions } from "@/ui/dialog";
import { EmptyState, ErrorNotice } from "@/ui/feedback";
import { Field, Select } from "@/ui/field";
import { Facts, muted, Panel } from "@/ui/layout";
import styles from "@/features/market/market.module.css";

interface OffersProps {
  /** Virtual clusters for which the person may act. */
  mine: readonly string[];
  accounts: readonly CreditAccount[];
}

/** What anybody may take now, and who would have to pay what for it. */
export function OffersPanel({ mine, accounts }: OffersProps) {
  const query = useQuery(openOffersQuery);
  const [taking, setTaking] = useState<Offer | null>(null);
  const withdraw = useDeed(
    (offer: Offer) => withdrawOffer(offer.id),
    (offer) => `Withdrew the offer of ${lotText(offer.lot)}.`,
  );
  const now = useNow();
  return (
    <Panel title="Open offers" flush>
      <DataTable
        label="Open offers"
        rows={query.data}
        rowKey={({ id }) => id}
        query={query}
        empty={
          <EmptyState title="Nothing is offered">
            Operators and admins of a virtual cluster&apos;s tenant offer GPUs, or set a rule that does.
          </EmptyState>
        }
        columns={[
          { header: "Lender", isRowHeader: true, sortBy: ({ lender }) => lender, cell: ({ lender }) => lender },
          {
            header: "What",
            className: styles.lot,
            cell: (offer) => (
              <>
                {lotText(offer.lot)} <Models lot={offer} />
              </>
            ),
          },
          { header: "When", className: styles.when, cell: (offer) => offerTime(offer, now) },
          {
            header: "Price in credits",
            className: styles.lot,
            cell: (offer) => (
              <>
                {priceText(offer)} <span className={muted}>by {offer.made_by.replace(/^user /, "")}</span>
              </>
            ),
          },
          {
            header: "Cost now",
            isNumeric: true,
            sortBy: (offer) => offer.cost_now,
            cell: (offer) => amount(offer.cost_now),
          },
          {
            header: "Take or withdraw",
            isHeaderHidden: true,
            className: styles.actions,
            cell: (offer) => (
              <>
                {mine.some((name) => name !== offer.lender) && (
                  <Button aria-label={`Take ${lotText(offer.lot)} of ${offer.lender}`} onClick={() => setTaking(offer)}>
                    Take
                  </Button>
                )}
                {offer.may_withdraw && (
                  <Button
                    look="quiet"
                    aria-label={`Withdraw ${lotText(offer.lot)} of ${offer.lender}`}
                    busy={withdraw.isPending && withdraw.variables.id === offer.id}
                    onClick={() => withdraw.mutate(offer)}
                  >
                    Withdraw
                  </Button>
                )}
              </>
            ),
          },
        ]}
      />
      {taking && <TakeDialog offer={taking} mine={mine} accounts={accounts} onClose={() => setTaking(null)} />}
    </Panel>
  );
}

/** For cells, what GPUs are in them. */
function Models({ lot: { lot, gpus, gpu_models: models } }: { lot: Pick<Offer, "lot" | "gpus" | "gpu_models"> }) {
  if (Object.keys(lot.cells).length === 0) return null;
  return (
    <span className={muted}>
      {gpus} {models.join(", ")}
    </span>
  );
}

interface TakeProps extends OffersProps {
  offer: Offer;
  onClose: () => void;
}

function TakeDialog({ offer, mine, accounts, onClose }: TakeProps) {
  const takers = mine.filter((name) => name !== offer.lender);
  const [taker, setTaker] = useState(takers[0] ?? "");
  const now = useNow();
  const take = useDeed(
    () => takeOffer(offer.id, taker),
    () => `${taker} has ${lotText(offer.lot)} of ${offer.lender}.`,
    onClose,
  );
  const balance = accounts.find(({ virtual_cluster: name }) => name === taker)?.balance;
  const isShort = balance !== undefined && balance < offer.cost_now;
  return (
    <Dialog open onClose={onClose} title={`Take ${lotText(offer.lot)}`} description={`${offer.lender} lends it.`}>
      {take.error && <ErrorNotice error={take.error} />}
      <Facts
        facts={[
          ["When", offerTime(offer, now)],
          ["Price in credits", priceText(offer)],
          ["To pay now", creditsText(offer.cost_now)],
          ...(offer.in_return ? [["Given in return", lotText(offer.in_return)] as const] : []),
        ]}
      />
      <Field
        label="For virtual cluster"
        hint={balance !== undefined && `It has ${creditsText(balance)}.`}
        problem={
          take.refusal?.explain(take.refusal.fields[0]?.field ?? "") ??
          (isShort ? `It has ${creditsText(balance)}, which is not enough.` : undefined)
        }
      >
        {(attributes) => (
          <Select
            {...attributes}
            value={taker}
            options={takers.map((name) => ({ value: name, label: name }))}
            onChange={(event) => setTaker(event.target.value)}
          />
        )}
      </Field>
      <DialogActions>
        <Button onClick={onClose}>Close</Button>
        <Button look="primary" busy={take.isPending} onClick={() => take.mutate(undefined)}>
          Take
        </Button>
      </DialogActions>
    </Dialog>
  );
}
