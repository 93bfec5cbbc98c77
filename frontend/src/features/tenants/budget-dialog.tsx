import { useMutation, useQueryClient } from "@tanstack/react-query";

import { budgetEdition, budgetsQuery, setBudget } from "@/api/notice-queries";
import type { BudgetState, BudgetTerms } from "@/api/schema";
import { useEdition } from "@/components/edition";
import { useSentForm } from "@/components/sent-form";
import { BudgetFields } from "@/features/tenants/budget-fields";
import { Button } from "@/ui/button";
import { FormDialog } from "@/ui/dialog";
import { TextField } from "@/ui/field";
import { FieldRow } from "@/ui/form";

type Terms = Pick<BudgetTerms, "amount" | "unit" | "period" | "action">;

const USUAL: Terms = { amount: 1000, unit: "gpu_hours", period: "month", action: "warn" };

interface BudgetDialogProps {
  tenant: string;
  state: BudgetState;
  onClose: () => void;
}

/** What the tenant may use up, for operators to set. */
export function BudgetDialog({ tenant, state, onClose }: BudgetDialogProps) {
  const queries = useQueryClient();
  const editing = useEdition(budgetEdition(tenant), state);
  const { budget } = editing.thing;
  const save = useMutation({
    mutationFn: (terms: Terms | null) => setBudget(tenant, terms, editing.edition),
    onSuccess: () => {
      // That of the tenant, and the list of all.
      void queries.invalidateQueries({ queryKey: budgetsQuery.queryKey });
      onClose();
    },
  });
  const { amount, unit, period, action } = budget ?? USUAL;
  const { sending, field, number } = useSentForm<Terms>({ amount, unit, period, action }, save, { editing });
  return (
    <FormDialog
      title={`Budget of ${tenant}`}
      description="The use of running jobs counts, too."
      sending={sending}
      action="Save"
      other={
        budget && (
          <Button busy={sending.busy} onClick={() => save.mutate(null)}>
            Remove the budget
          </Button>
        )
      }
      onClose={onClose}
    >
      <FieldRow>
        <TextField {...number("amount")} label="Amount" required min={0.001} step="any" />
        <BudgetFields field={field} />
      </FieldRow>
    </FormDialog>
  );
}
