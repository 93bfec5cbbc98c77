import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";

import { ApiError } from "@/api/client";
import type { FailureRule, FailureRuleList } from "@/api/schema";
import { changeFailureRules, failureRulesQuery } from "@/api/settings-queries";
import { draftOf, EMPTY, RETRIES, ruleOf, withRule, type RuleDraft } from "@/features/failures/rule-draft";
import { Trial } from "@/features/failures/trial";
import { Button } from "@/ui/button";
import { Dialog, DialogActions } from "@/ui/dialog";
import { ErrorNotice } from "@/ui/feedback";
import { Field, Select, TextInput } from "@/ui/field";
import { FieldRow, Form } from "@/ui/form";
import { useSay } from "@/ui/toasts";

const SEVERITIES = [
  { value: "error", label: "Error" },
  { value: "warning", label: "Warning" },
  { value: "info", label: "Information" },
];

interface RuleDialogProps {
  /** Null to make a new one. */
  rule: FailureRule | null;
  known: FailureRuleList;
  onClose: () => void;
}

export function RuleDialog({ rule, known, onClose }: RuleDialogProps) {
  const say = useSay();
  const queries = useQueryClient();
  const classes = useId();
  const builtIn = known.classes.map(({ name }) => name);
  const [draft, setDraft] = useState<RuleDraft>(rule ? draftOf(rule) : EMPTY);
  const change = (changed: Partial<RuleDraft>) => setDraft((now) => ({ ...now, ...changed }));
  const withDraft = (rules: readonly FailureRule[]) => withRule(rules, rule?.name ?? null, ruleOf(draft, builtIn));
  const save = useMutation({
    mutationFn: () => changeFailureRules(withDraft),
    onSuccess: (saved) => {
      queries.setQueryData(failureRulesQuery.queryKey, saved);
      say("done", `Saved the rule ${draft.name}.`);
      onClose();
    },
  });
  const problemOf = (name: string) => problemIn(save.error, name);
  const text = (label: string, name: Exclude<keyof RuleDraft, "retry">, hint?: string, attributes: object = {}) => (
    <Field label={label} hint={hint} problem={problemOf(name)}>
      {(control) => (
        <TextInput
          {...control}
          {...attributes}
          value={draft[name]}
          onChange={(event) => change({ [name]: event.target.value })}
        />
      )}
    </Field>
  );
  const chosen = known.classes.find(({ name }) => name === draft.class.trim());
  return (
    <Dialog open onClose={onClose} title={rule ? `Edit ${rule.name}` : "New rule"}>
      <Form onSubmit={() => save.mutate()}>
        {save.error && !problemIn(save.error, "\\w+") && <ErrorNotice error={save.error} />}
        <FieldRow>
          {text("Name", "name", "Lower-case letters, digits, '-' and '_'", { required: true, autoFocus: true })}
          <Field label="Severity" problem={problemOf("severity")}>
            {(attributes) => (
              <Select
                {...attributes}
                value={draft.severity}
                options={SEVERITIES}
                onChange={(event) => change({ severity: event.target.value as FailureRule["severity"] })}
              />
            )}
          </Field>
        </FieldRow>
        {text("Pattern", "pattern", "A regular expression for the end of the output; (?c) first: case matters")}
        <FieldRow>
          {text("Exit codes", "exit_codes", "And one of these: 1, 28")}
          {text("Signals", "signals", "Or one of these: 9")}
        </FieldRow>
        <FieldRow>
          {text("Class", "class", chosen ? `Built in: ${chosen.says}` : "Built in, or a name of your own", {
            required: true,
            list: classes,
          })}
          {!chosen && (
            <Field label="Tried again" problem={problemOf("retry")}>
              {(attributes) => (
                <Select
                  {...attributes}
                  value={draft.retry ?? "again"}
                  options={RETRIES}
                  onChange={(event) => change({ retry: event.target.value as FailureRule["retry"] })}
                />
              )}
            </Field>
          )}
        </FieldRow>
        <datalist id={classes}>
          {known.classes.map(({ name, says }) => (
            <option key={name} value={name}>
              {says}
            </option>
          ))}
        </datalist>
        {text("What happened", "says", chosen ? `Empty: ${chosen.says}` : "In a few words; empty: its name")}
        {text("Advice", "advice", "What the job's owner can do about it")}
        <Trial rules={() => withDraft(known.rules)} />
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button type="submit" look="primary" busy={save.isPending}>
            Save
          </Button>
        </DialogActions>
      </Form>
    </Dialog>
  );
}

/**
 * What the server objects to in a field of the rule, whichever place it has: the others are in force, so that nothing
 * is wrong with them. `name` is a part of a regular expression.
 */
function problemIn(error: Error | null, name: string): string | undefined {
  if (!(error instanceof ApiError)) return undefined;
  const found = error.fields.find(({ field }) => new RegExp(`^rules\\.\\d+\\.${name}(\\.|$)`).test(field));
  return found && error.explain(found.field);
}
