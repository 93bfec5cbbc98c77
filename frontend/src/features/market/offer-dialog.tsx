import { useState } from "react";

import { makeOffer } from "@/api/market-queries";
import type { OfferInputRequest } from "@/api/schema";
import { creditsText } from "@/components/lot";
import { useNow } from "@/components/now";
import { counted, duration } from "@/components/format";
import { gpusOf, lotOf } from "@/features/market/choices";
import { LotFields, useChoices, WantedFields, type Counts, type Wanted } from "@/features/market/lot-fields";
import { useDeed } from "@/features/market/use-deed";
import { instantOf, localInput } from "@/features/market/words";
import { Button } from "@/ui/button";
import { Segments } from "@/ui/choice";
import { Dialog, DialogActions } from "@/ui/dialog";
import { ErrorNotice } from "@/ui/feedback";
import { Field, NumberInput, Select, TextInput } from "@/ui/field";
import { FieldRow, Form } from "@/ui/form";
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

/** Offers what a virtual cluster owns to whoever takes it first. */
export function OfferDialog({ mine, onClose }: { mine: readonly string[]; onClose: () => void }) {
  const now = useNow();
  const [lender, setLender] = useState(mine[0] ?? "");
  const [counts, setCounts] = useState<Counts>({});
  const [start, setStart] = useState<(typeof STARTS)[number]["value"]>("taken");
  const [from, setFrom] = useState(() => localInput(now));
  const [until, setUntil] = useState(() => localInput(now + USUAL_MS));
  const [terms, setTerms] = useState<(typeof FOR)[number]["value"]>("credits");
  const [price, setPrice] = useState<number | undefined>(1);
  const [wanted, setWanted] = useState<Wanted>({ part: "gpus", name: "", number: 1 });
  const choices = useChoices(lender);
  const make = useDeed(
    (offer: OfferInputRequest) => makeOffer(offer),
    () => `${lender} offers it. It is lent once somebody takes it.`,
    onClose,
  );
  const { refusal } = make;
  const returnField = refusal?.fields.find(({ field }) => field.startsWith("in_return"))?.field;
  const returnProblem = returnField && refusal.explain(returnField);
  const startsAt = start === "set" ? instantOf(from) : "";
  const endsAt = instantOf(until);
  const submit = () => {
    make.mutate({
      virtual_cluster: lender,
      lot: lotOf(choices, counts),
      ...(startsAt ? { starts_at: startsAt } : {}),
      ends_at: endsAt,
      price_per_gpu_hour: terms === "credits" ? (price ?? 0) : 0,
      ...(terms === "return" ? { in_return: { [wanted.part]: { [wanted.name]: wanted.number ?? 0 } } } : {}),
    });
  };
  const gpus = gpusOf(choices, counts);
  const seconds = (Date.parse(endsAt) - (startsAt ? Date.parse(startsAt) : now)) / 1000;
  return (
    <Dialog
      open
      onClose={onClose}
      title="Offer what is not needed"
      description="The first who takes it has it. At the end it is yours again by itself."
    >
      <Form onSubmit={submit}>
        {make.error && <ErrorNotice error={make.error} />}
        <Field label="Of virtual cluster" problem={refusal?.explain("virtual_cluster")}>
          {(attributes) => (
            <Select
              {...attributes}
              value={lender}
              options={mine.map((name) => ({ value: name, label: name }))}
              onChange={(event) => {
                setLender(event.target.value);
                setCounts({});
              }}
            />
          )}
        </Field>
        <LotFields label="What" choices={choices} counts={counts} onChange={setCounts} refusal={refusal} />
        <Segments label="When it starts" value={start} options={STARTS} onChange={setStart} />
        <FieldRow>
          {start === "set" && (
            <Field label="From" problem={refusal?.explain("starts_at")}>
              {(attributes) => <Instant attributes={attributes} value={from} onChange={setFrom} />}
            </Field>
          )}
          <Field label="Until" problem={refusal?.explain("ends_at")}>
            {(attributes) => <Instant attributes={attributes} value={until} onChange={setUntil} />}
          </Field>
        </FieldRow>
        <Segments label="For what" value={terms} options={FOR} onChange={setTerms} />
        {terms === "credits" ? (
          <Field
            label="Credits for a GPU and an hour"
            hint="0: it is free"
            problem={refusal?.explain("price_per_gpu_hour")}
          >
            {(attributes) => (
              <NumberInput {...attributes} required min={0} step="any" value={price} onChange={setPrice} />
            )}
          </Field>
        ) : (
          <WantedFields wanted={wanted} onChange={setWanted} problem={returnProblem} />
        )}
        {gpus > 0 && seconds > 0 && (
          <p className={muted}>
            {counted(gpus, "GPU")} for {duration(Math.round(seconds / 60) * 60)}
            {terms === "credits" && `: ${creditsText((gpus * (price ?? 0) * seconds) / 3600)} at most`}. The price is
            for the time that is left when it is taken.
          </p>
        )}
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="primary" busy={make.isPending} disabled={gpus === 0 || !endsAt}>
            Offer
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

interface InstantProps {
  attributes: object;
  value: string;
  onChange: (value: string) => void;
}

function Instant({ attributes, value, onChange }: InstantProps) {
  return (
    <TextInput
      {...attributes}
      type="datetime-local"
      required
      value={value}
      onChange={(event) => onChange(event.target.value)}
    />
  );
}
