import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Pencil } from "lucide-react";
import { useState } from "react";

import { budgetEdition, budgetQuery, budgetsQuery, setBudget } from "@/api/notice-queries";
import type { BudgetState, BudgetTerms } from "@/api/schema";
import { moment } from "@/components/format";
import { useEdition } from "@/components/edition";
import { useSentForm } from "@/components/sent-form";
import { useSession } from "@/components/session";
import { PartBar } from "@/components/use-bar";
import { BudgetFields } from "@/features/tenants/budget-fields";
import { Button, IconButton } from "@/ui/button";
import { FormDialog } from "@/ui/dialog";
import { ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { TextField } from "@/ui/field";
import { FieldRow } from "@/ui/form";
import { Facts, Panel, Stack } from "@/ui/layout";
import { amountText, outlook } from "@/components/notices/words";
import styles from "@/components/notices/notices.module.css";

type Terms = Pick<BudgetTerms, "amount" | "unit" | "period" | "action">;

const USUAL: Terms = { amount: 1000, unit: "gpu_hours", period: "month", action: "warn" };

/** What the tenant may use up, what it has used, and what is to be expected. */
export function BudgetPanel({ tenant }: { tenant: string }) {
  const me = useSession();
  const query = useQuery(budgetQuery(tenant));
  const [editing, setEditing] = useState(false);
  return (
    <Panel
      title="Budget"
      actions={
        me.is_operator &&
        query.data && (
          <IconButton label="Edit the budget" icon={<Pencil size={15} />} onClick={() => setEditing(true)} />
        )
      }
    >
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines count={2} />}
      {query.data && <State state={query.data} />}
      {editing && query.data && <BudgetDialog tenant={tenant} state={query.data} onClose={() => setEditing(false)} />}
    </Panel>
  );
}

function State({ state }: { state: BudgetState }) {
  const { budget, used } = state;
  const unit = budget?.unit ?? "gpu_hours";
  const says = outlook(state, moment);
  const isSpent = budget !== null && used >= budget.amount;
  return (
    <Stack>
      {budget && (
        <span className={styles.bar}>
          <PartBar part={used / budget.amount} /> {Math.round((100 * used) / budget.amount)} % used
        </span>
      )}
      <Facts
        facts={[
          ["Used", used > 0 ? amountText(used, unit, state.currency) : "nothing"],
          ["Limit", budget ? amountText(budget.amount, unit, state.currency) : "no limit"],
          ["Since", moment(state.counts_from)],
          ["Resets", state.ends_at ? moment(state.ends_at) : "never"],
          [
            "Last 24 hours",
            state.used_last_day > 0 ? amountText(state.used_last_day, unit, state.currency) : "nothing",
          ],
        ]}
      />
      {isSpent ? <Notice tone="failed">{says}</Notice> : says && <p className={styles.note}>{says}</p>}
    </Stack>
  );
}

interface BudgetDialogProps {
  tenant: string;
  state: BudgetState;
  onClose: () => void;
}

function BudgetDialog({ tenant, state, onClose }: BudgetDialogProps) {
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
