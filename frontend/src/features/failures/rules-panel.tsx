import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { ArrowUp, Pencil, Plus, Trash2 } from "lucide-react";
import { useState } from "react";

import type { FailureRule } from "@/api/schema";
import { changeFailureRules, failureRulesQuery } from "@/api/settings-queries";
import { useSession } from "@/components/session";
import { Tag } from "@/components/state-badge";
import styles from "@/features/failures/failures.module.css";
import { earlier, endsOf, retryText } from "@/features/failures/rules";
import { Button, IconButton } from "@/ui/button";
import { DataTable, type DataTableProps } from "@/ui/data-table";
import { Confirm } from "@/ui/confirm";
import { EmptyState } from "@/ui/feedback";
import { muted, Panel } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";
import { useSay } from "@/ui/toasts";

const RuleDialog = onDemand(async () => (await import("@/features/failures/rule-dialog")).RuleDialog);

/** The rules in the order in which they are tried; operators change them. */
export function RulesPanel() {
  const me = useSession();
  const say = useSay();
  const queries = useQueryClient();
  const query = useQuery(failureRulesQuery);
  const [editing, setEditing] = useState<FailureRule | "new" | null>(null);
  const [removing, setRemoving] = useState<string | null>(null);
  const change = useMutation({
    mutationFn: changeFailureRules,
    onSuccess: (saved) => queries.setQueryData(failureRulesQuery.queryKey, saved),
    onError: (error) => say("failed", error.message),
    onSettled: () => setRemoving(null),
  });
  return (
    <Panel
      title="Your rules"
      flush
      actions={
        me.is_operator &&
        query.data && (
          <Button icon={<Plus size={14} aria-hidden />} onClick={() => setEditing("new")}>
            New rule
          </Button>
        )
      }
    >
      <RuleTable
        rules={query.data?.rules}
        query={query}
        busy={change.isPending}
        {...(me.is_operator && {
          onEdit: setEditing,
          onEarlier: (name: string) => change.mutate((rules) => earlier(rules, name)),
          onRemove: setRemoving,
        })}
      />
      {editing && query.data && (
        <RuleDialog rule={editing === "new" ? null : editing} known={query.data} onClose={() => setEditing(null)} />
      )}
      <Confirm
        open={removing !== null}
        onClose={() => setRemoving(null)}
        title={`Remove the rule ${removing ?? ""}?`}
        description="Past failures keep their class and advice."
        action="Remove"
        busy={change.isPending}
        onConfirm={() => change.mutate((rules) => rules.filter(({ name }) => name !== removing))}
      />
    </Panel>
  );
}

interface RuleTableProps extends Pick<DataTableProps<FailureRule>, "query"> {
  rules: readonly FailureRule[] | undefined;
  busy: boolean;
  /** Only of who may change them. */
  onEdit?: (rule: FailureRule) => void;
  onEarlier?: (name: string) => void;
  onRemove?: (name: string) => void;
}

function RuleTable({ rules, query, busy, onEdit, onEarlier, onRemove }: RuleTableProps) {
  return (
    <DataTable
      label="Rules in the order in which they are tried"
      rows={rules}
      rowKey={({ name }) => name}
      query={query}
      empty={
        <EmptyState title="No rules of yours">
          Built-in rules classify failures. Your rules run before them. A rule matches output text, an exit code or a
          signal, and says what happened, what to do about it and whether the job is retried.
        </EmptyState>
      }
      columns={[
        {
          header: "Rule",
          isRowHeader: true,
          cell: (rule) => (
            <div className={styles.rule}>
              {rule.name} {rule.severity !== "error" && <Tag>{rule.severity}</Tag>}
              <p className={muted}>{[rule.says, rule.advice].filter(Boolean).join(". ")}</p>
            </div>
          ),
        },
        {
          header: "Matches",
          className: styles.matches,
          cell: (rule) => (
            <>
              {rule.pattern && <code>{rule.pattern}</code>} <span className={muted}>{endsOf(rule)}</span>
            </>
          ),
        },
        { header: "Class", cell: (rule) => rule.class },
        { header: "Tried again", cell: retryText },
        onEdit && {
          header: "Change",
          isHeaderHidden: true,
          className: styles.actions,
          cell: (rule, place) => (
            <>
              <IconButton
                label={`Try ${rule.name} earlier`}
                icon={<ArrowUp size={15} />}
                disabled={place === 0 || busy}
                onClick={() => onEarlier?.(rule.name)}
              />
              <IconButton label={`Edit ${rule.name}`} icon={<Pencil size={15} />} onClick={() => onEdit(rule)} />
              <IconButton
                label={`Remove ${rule.name}`}
                icon={<Trash2 size={15} />}
                onClick={() => onRemove?.(rule.name)}
              />
            </>
          ),
        },
      ]}
    />
  );
}
