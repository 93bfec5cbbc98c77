import { useState } from "react";

import { grantCredits, setAllowance } from "@/api/market-queries";
import type { CreditAccount } from "@/api/schema";
import { creditsText } from "@/components/lot";
import { useDeed } from "@/features/market/use-deed";
import { Button } from "@/ui/button";
import { Dialog, DialogActions } from "@/ui/dialog";
import { ErrorNotice } from "@/ui/feedback";
import { Field, NumberInput, TextInput } from "@/ui/field";
import { FieldRow, Form } from "@/ui/form";

const DAY_SECONDS = 86_400;

interface CreditDialogProps {
  account: CreditAccount;
  onClose: () => void;
}

export function GrantDialog({ account: { virtual_cluster: name, balance }, onClose }: CreditDialogProps) {
  const [credits, setCredits] = useState<number | undefined>(100);
  const [reason, setReason] = useState("");
  const grant = useDeed(
    () => grantCredits(name, credits ?? 0, reason),
    () => `Granted ${creditsText(credits ?? 0)} to ${name}.`,
    onClose,
  );
  return (
    <Dialog open onClose={onClose} title={`Grant credits to ${name}`} description={`It has ${creditsText(balance)}.`}>
      <Form onSubmit={() => grant.mutate(undefined)}>
        {grant.error && <ErrorNotice error={grant.error} />}
        <Field label="Credits" hint="Less than 0 takes back" problem={grant.refusal?.explain("credits")}>
          {(attributes) => <NumberInput {...attributes} required step="any" value={credits} onChange={setCredits} />}
        </Field>
        <Field label="Reason" hint="Others read it among the transfers" problem={grant.refusal?.explain("reason")}>
          {(attributes) => (
            <TextInput {...attributes} value={reason} onChange={(event) => setReason(event.target.value)} />
          )}
        </Field>
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="primary" busy={grant.isPending}>
            Grant
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

export function AllowanceDialog({ account: { virtual_cluster: name, allowance }, onClose }: CreditDialogProps) {
  const [credits, setCredits] = useState<number | undefined>(allowance?.credits ?? 100);
  const [days, setDays] = useState<number | undefined>((allowance?.every_seconds ?? 7 * DAY_SECONDS) / DAY_SECONDS);
  const set = useDeed(
    (isOn: boolean) =>
      setAllowance(name, isOn ? { credits: credits ?? 0, every_seconds: Math.round((days ?? 0) * DAY_SECONDS) } : null),
    (isOn) => `${name} has ${isOn ? `an allowance of ${creditsText(credits ?? 0)}` : "no allowance"}.`,
    onClose,
  );
  return (
    <Dialog
      open
      onClose={onClose}
      title={`Allowance of ${name}`}
      description="Credits that it is granted again and again."
    >
      <Form onSubmit={() => set.mutate(true)}>
        {set.error && <ErrorNotice error={set.error} />}
        <FieldRow>
          <Field label="Credits" problem={set.refusal?.explain("credits")}>
            {(attributes) => (
              <NumberInput {...attributes} required min={0} step="any" value={credits} onChange={setCredits} />
            )}
          </Field>
          <Field label="Every so many days" problem={set.refusal?.explain("every_seconds")}>
            {(attributes) => (
              <NumberInput {...attributes} required min={0} step="any" value={days} onChange={setDays} />
            )}
          </Field>
        </FieldRow>
        <DialogActions>
          {allowance && (
            <Button busy={set.isPending} onClick={() => set.mutate(false)}>
              Remove the allowance
            </Button>
          )}
          <Button type="submit" look="primary" busy={set.isPending}>
            Save
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}
