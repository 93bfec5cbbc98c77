import { useWatch } from "react-hook-form";

import { makeOffer } from "@/api/market-queries";
import type { OfferInputRequest } from "@/api/schema";
import { counted, creditsText, duration } from "@/components/format";
import { useNow } from "@/components/now";
import { useSentForm } from "@/components/sent-form";
import { gpusOf, lotOf } from "@/features/market/choices";
import { type Counts, LotFields, useChoices, type Wanted, WantedFields } from "@/features/market/lot-fields";
import { useDeed } from "@/features/market/use-deed";
import { instantOf, localInput } from "@/features/market/words";
import { Segments } from "@/ui/choice";
import { FormDialog } from "@/ui/dialog";
import { SelectField, TextField } from "@/ui/field";
import { FieldRow } from "@/ui/form";
import { muted } from "@/ui/layout";

const USUAL_MS = 2 * 3_600_000;
const STARTS = [
  { value: "taken", label: "Starts when it is taken" },
  { value: "set", label: "Starts at a time" },
] as const;
const FOR = [
  { value: "credits", label: "For credits" },
  { value: "return", label: "In return for" },
] as const;

interface Draft {
  virtual_cluster: string;
  lot: Counts;
  start: (typeof STARTS)[number]["value"];
  starts_at: string;
  ends_at: string;
  terms: (typeof FOR)[number]["value"];
  price_per_gpu_hour: number | undefined;
  in_return: Wanted;
}

/** Offers what a virtual cluster owns to whoever takes it first. */
export function OfferDialog({ mine, onClose }: { mine: readonly string[]; onClose: () => void }) {
  const now = useNow();
  const make = useDeed(
    (draft: Draft) => makeOffer(offerOf(draft)),
    ({ virtual_cluster: lender }) => `${lender} offers it. The loan begins when another virtual cluster takes it.`,
    onClose,
  );
  const { sending, field, number, problem, control, setValue } = useSentForm<Draft>(
    {
      virtual_cluster: mine[0] ?? "",
      lot: {},
      start: "taken",
      starts_at: localInput(now),
      ends_at: localInput(now + USUAL_MS),
      terms: "credits",
      price_per_gpu_hour: 1,
      in_return: { part: "gpus", name: "", number: 1 },
    },
    make,
  );
  const draft = useWatch({ control }) as Draft;
  const choices = useChoices(draft.virtual_cluster);
  const offer = offerOf(draft);
  const gpus = gpusOf(choices, draft.lot);
  const seconds = (Date.parse(offer.ends_at) - (offer.starts_at ? Date.parse(offer.starts_at) : now)) / 1000;
  return (
    <FormDialog
      title="Offer unused GPUs"
      description="The first virtual cluster that takes it gets it. At the end, it returns to you automatically."
      sending={sending}
      action="Offer"
      disabled={gpus === 0 || !offer.ends_at}
      onClose={onClose}
    >
      <SelectField
        // What one has is nothing of another's.
        {...field("virtual_cluster", { onChange: () => setValue("lot", {}) })}
        label="Virtual cluster"
        options={mine.map((name) => ({ value: name, label: name }))}
      />
      <LotFields
        label="What"
        choices={choices}
        counts={draft.lot}
        onChange={(counts) => setValue("lot", counts)}
        refusal={make.refusal}
      />
      <Segments
        label="When it starts"
        value={draft.start}
        options={STARTS}
        onChange={(next) => setValue("start", next)}
      />
      <FieldRow>
        {draft.start === "set" && <TextField {...field("starts_at")} label="From" type="datetime-local" required />}
        <TextField {...field("ends_at")} label="Until" type="datetime-local" required />
      </FieldRow>
      <Segments label="For what" value={draft.terms} options={FOR} onChange={(next) => setValue("terms", next)} />
      {draft.terms === "credits" ? (
        <TextField
          {...number("price_per_gpu_hour")}
          label="Credits per GPU and hour"
          hint="0: it is free"
          required
          min={0}
          step="any"
        />
      ) : (
        <WantedFields
          wanted={draft.in_return}
          onChange={(wanted) => setValue("in_return", wanted)}
          problem={problem("in_return")}
        />
      )}
      {gpus > 0 && seconds > 0 && (
        <p className={muted}>
          {counted(gpus, "GPU")} for {duration(Math.round(seconds / 60) * 60)}
          {draft.terms === "credits" &&
            `: ${creditsText((gpus * (draft.price_per_gpu_hour ?? 0) * seconds) / 3600)} at most`}
          . The price covers the time left when the offer is taken.
        </p>
      )}
    </FormDialog>
  );
}

function offerOf(draft: Draft): OfferInputRequest {
  const { terms, in_return: wanted, price_per_gpu_hour: price } = draft;
  const startsAt = draft.start === "set" && instantOf(draft.starts_at);
  return {
    virtual_cluster: draft.virtual_cluster,
    lot: lotOf(draft.lot),
    ...(startsAt && { starts_at: startsAt }),
    ends_at: instantOf(draft.ends_at),
    price_per_gpu_hour: terms === "credits" ? (price ?? 0) : 0,
    ...(terms === "return" && { in_return: { [wanted.part]: { [wanted.name]: wanted.number ?? 0 } } }),
  };
}
