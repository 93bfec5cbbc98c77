import { useMutation, useQueryClient } from "@tanstack/react-query";

import { setUserLimits, userBudgetEdition, userLimitsQuery, userQuotaEdition } from "@/api/limit-queries";
import type { BudgetInputRequest, LimitsOfUser } from "@/api/schema";
import { bothRead, useEdition } from "@/components/edition";
import { useSentForm } from "@/components/sent-form";
import { BudgetFields } from "@/features/tenants/budget-fields";
import { FormDialog } from "@/ui/dialog";
import { TextField } from "@/ui/field";
import { FieldRow } from "@/ui/form";

const GIB = 2 ** 30;

interface Values extends Omit<BudgetInputRequest, "amount" | "starts_at"> {
  gpus?: number;
  cpus?: number;
  memory?: number;
  amount?: number;
}

interface LimitsDialogProps {
  tenant: string;
  username: string;
  /** Undefined: the member has none yet. */
  limits: LimitsOfUser | undefined;
  onClose: () => void;
}

/** What a member may hold at once and use up in a period, for an admin of the tenant to set. */
export function LimitsDialog({ tenant, username, limits, onClose }: LimitsDialogProps) {
  const queries = useQueryClient();
  const ofQuota = useEdition(userQuotaEdition(tenant, username), limits?.quota);
  const ofBudget = useEdition(userBudgetEdition(tenant, username), limits);
  const quota = ofQuota.thing;
  const budget = ofBudget.thing?.budget;
  const save = useMutation({
    mutationFn: ({ gpus, cpus, memory, amount, ...terms }: Values) =>
      setUserLimits(
        tenant,
        username,
        {
          gpus: gpus ?? null,
          cpus: cpus ?? null,
          memory_bytes: memory === undefined ? null : Math.round(memory * GIB),
        },
        amount === undefined ? null : { amount, ...terms },
        { quota: ofQuota.edition, budget: ofBudget.edition },
      ),
    onSettled: () => queries.invalidateQueries({ queryKey: userLimitsQuery(tenant).queryKey }),
    onSuccess: onClose,
  });
  const initial: Values = {
    gpus: quota?.gpus ?? undefined,
    cpus: quota?.cpus ?? undefined,
    memory: quota?.memory_bytes == null ? undefined : quota.memory_bytes / GIB,
    amount: budget?.amount,
    unit: budget?.unit ?? "gpu_hours",
    period: budget?.period ?? "month",
    action: budget?.action ?? "warn",
  };
  const fieldOf = (field: string) => (field === "memory_bytes" ? "memory" : field);
  const { sending, field, number } = useSentForm<Values>(initial, save, {
    fieldOf,
    editing: bothRead(ofQuota, ofBudget),
  });
  return (
    <FormDialog
      title={`Limits of ${username}`}
      description={`In ${tenant}, and never more than the tenant has. An empty field is no limit.`}
      sending={sending}
      action="Save"
      onClose={onClose}
    >
      <FieldRow>
        <TextField {...number("gpus")} label="GPUs at once" min={0} placeholder="no limit" />
        <TextField {...number("cpus")} label="CPUs at once" min={0} step="any" placeholder="no limit" />
        <TextField {...number("memory")} label="Memory at once, GiB" min={0} step="any" placeholder="no limit" />
      </FieldRow>
      <FieldRow>
        <TextField {...number("amount")} label="Budget" min={0.001} step="any" placeholder="no limit" />
        <BudgetFields field={field} />
      </FieldRow>
    </FormDialog>
  );
}
