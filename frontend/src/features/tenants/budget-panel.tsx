import { useQuery } from "@tanstack/react-query";
import { Pencil } from "lucide-react";
import { useState } from "react";

import { budgetQuery } from "@/api/notice-queries";
import type { BudgetState } from "@/api/schema";
import { moment } from "@/components/format";
import { useSession } from "@/components/session";
import { PartBar } from "@/components/use-bar";
import { IconButton } from "@/ui/button";
import { ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { Facts, Panel, Stack } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";
import { amountText, outlook } from "@/components/notices/words";
import styles from "@/components/notices/notices.module.css";

const BudgetDialog = onDemand(async () => (await import("@/features/tenants/budget-dialog")).BudgetDialog);

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
