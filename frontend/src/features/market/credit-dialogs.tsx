import { grantCredits, setAllowance } from "@/api/market-queries";
import type { CreditAccount } from "@/api/schema";
import { creditsText } from "@/components/format";
import { useSentForm } from "@/components/sent-form";
import { useDeed } from "@/features/market/use-deed";
import { Button } from "@/ui/button";
import { FormDialog } from "@/ui/dialog";
import { TextField } from "@/ui/field";
import { FieldRow } from "@/ui/form";

const DAY_SECONDS = 86_400;

interface Grant {
  credits: number | undefined;
  reason: string;
}

interface CreditDialogProps {
  account: CreditAccount;
  onClose: () => void;
}

export function GrantDialog({ account: { virtual_cluster: name, balance }, onClose }: CreditDialogProps) {
  const grant = useDeed(
    ({ credits, reason }: Grant) => grantCredits(name, credits ?? 0, reason),
    ({ credits }) => `Granted ${creditsText(credits ?? 0)} to ${name}.`,
    onClose,
  );
  const { sending, field, number } = useSentForm<Grant>({ credits: 100, reason: "" }, grant);
  return (
    <FormDialog
      title={`Grant credits to ${name}`}
      description={`It has ${creditsText(balance)}.`}
      sending={sending}
      action="Grant"
      onClose={onClose}
    >
      <TextField
        {...number("credits")}
        label="Credits"
        hint="A negative number takes credits back"
        required
        step="any"
      />
      <TextField {...field("reason")} label="Reason" hint="Others see it with the transfer" />
    </FormDialog>
  );
}

interface AllowanceDraft {
  credits: number | undefined;
  /** In days. */
  every_seconds: number | undefined;
}

export function AllowanceDialog({ account: { virtual_cluster: name, allowance }, onClose }: CreditDialogProps) {
  const set = useDeed(
    (draft: AllowanceDraft | null) =>
      setAllowance(
        name,
        draft && { credits: draft.credits ?? 0, every_seconds: Math.round((draft.every_seconds ?? 0) * DAY_SECONDS) },
      ),
    (draft) => `${name} has ${draft ? `an allowance of ${creditsText(draft.credits ?? 0)}` : "no allowance"}.`,
    onClose,
  );
  const { sending, number } = useSentForm<AllowanceDraft>(
    {
      credits: allowance?.credits ?? 100,
      every_seconds: (allowance?.every_seconds ?? 7 * DAY_SECONDS) / DAY_SECONDS,
    },
    set,
  );
  return (
    <FormDialog
      title={`Allowance of ${name}`}
      description="Credits that it is granted at regular intervals."
      sending={sending}
      action="Save"
      other={
        allowance && (
          <Button busy={set.isPending} onClick={() => set.mutate(null)}>
            Remove the allowance
          </Button>
        )
      }
      onClose={onClose}
    >
      <FieldRow>
        <TextField {...number("credits")} label="Credits" required min={0} step="any" />
        <TextField {...number("every_seconds")} label="Every how many days" required min={0} step="any" />
      </FieldRow>
    </FormDialog>
  );
}
