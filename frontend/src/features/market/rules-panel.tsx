import { useQuery } from "@tanstack/react-query";
import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";

import { deleteRule, rulesQuery } from "@/api/market-queries";
import type { MarketRule } from "@/api/schema";
import { useDeed } from "@/features/market/use-deed";
import { ruleText } from "@/features/market/words";
import { Button, IconButton } from "@/ui/button";
import { Confirm } from "@/ui/confirm";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { muted, Panel } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";
import styles from "@/features/market/market.module.css";

const RuleDialog = onDemand(async () => (await import("@/features/market/rule-dialog")).RuleDialog);

/** What virtual clusters lend and borrow by themselves. */
export function RulesPanel({ mine }: { mine: readonly string[] }) {
  const query = useQuery(rulesQuery);
  const [isAdding, setAdding] = useState(false);
  const [removing, setRemoving] = useState<MarketRule | null>(null);
  const remove = useDeed(
    (rule: MarketRule) => deleteRule(rule.id),
    (rule) => `${rule.virtual_cluster} no longer ${rule.kind}s by this rule.`,
  );
  return (
    <Panel
      title="Rules"
      flush
      actions={
        mine.length > 0 && (
          <Button icon={<Plus size={15} aria-hidden />} onClick={() => setAdding(true)}>
            Add a rule
          </Button>
        )
      }
    >
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines />}
      {query.data?.length === 0 && (
        <EmptyState title="No rules">
          A rule offers GPUs that have been idle, or takes offers while jobs wait. Without a rule, nothing is lent or
          taken automatically.
        </EmptyState>
      )}
      <ul className={styles.rules} aria-label="Rules">
        {query.data?.map((rule) => (
          <li key={rule.id}>
            <span>
              <strong>{rule.virtual_cluster}</strong> {ruleText(rule)}. <span className={muted}>By {rule.made_by}</span>
            </span>
            {rule.may_delete && (
              <IconButton
                label={`Remove the rule: ${rule.virtual_cluster} ${ruleText(rule)}`}
                icon={<Trash2 size={15} />}
                onClick={() => setRemoving(rule)}
              />
            )}
          </li>
        ))}
      </ul>
      {isAdding && <RuleDialog mine={mine} onClose={() => setAdding(false)} />}
      <Confirm
        open={removing !== null}
        onClose={() => setRemoving(null)}
        title="Remove this rule?"
        description={
          removing &&
          `${removing.virtual_cluster} ${ruleText(removing)}. Its open offers are withdrawn; loans continue.`
        }
        action="Remove"
        busy={remove.isPending}
        onConfirm={() => removing && remove.mutate(removing, { onSettled: () => setRemoving(null) })}
      />
    </Panel>
  );
}
