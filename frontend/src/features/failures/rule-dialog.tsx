import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId } from "react";
import { useWatch } from "react-hook-form";

import type { FailureRule, FailureRuleList } from "@/api/schema";
import { changeFailureRules, failureRulesQuery } from "@/api/settings-queries";
import { useSentForm } from "@/components/sent-form";
import { draftOf, EMPTY, RETRIES, ruleOf, withRule, type RuleDraft } from "@/features/failures/rule-draft";
import { Trial } from "@/features/failures/trial";
import { FormDialog } from "@/ui/dialog";
import { SelectField, TextField } from "@/ui/field";
import { FieldRow } from "@/ui/form";
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
  const withDraft = (rules: readonly FailureRule[], draft: RuleDraft) =>
    withRule(rules, rule?.name ?? null, ruleOf(draft, builtIn));
  const save = useMutation({
    mutationFn: (draft: RuleDraft) => changeFailureRules((rules) => withDraft(rules, draft)),
    onSuccess: (saved, { name }) => {
      queries.setQueryData(failureRulesQuery.queryKey, saved);
      say("done", `Saved the rule ${name}.`);
      onClose();
    },
  });
  const { sending, field, control, getValues } = useSentForm<RuleDraft>(rule ? draftOf(rule) : EMPTY, save, {
    // Whichever place it has: the other rules are in force, so that nothing is wrong with them.
    fieldOf: (name) => name.replace(/^rules\.\d+\./, ""),
  });
  const chosenName = useWatch({ control, name: "class" }).trim();
  const chosen = known.classes.find(({ name }) => name === chosenName);
  return (
    <FormDialog title={rule ? `Edit ${rule.name}` : "New rule"} sending={sending} action="Save" onClose={onClose}>
      <FieldRow>
        <TextField {...field("name")} label="Name" hint="Lower-case letters, digits, '-' and '_'" required autoFocus />
        <SelectField {...field("severity")} label="Severity" options={SEVERITIES} />
      </FieldRow>
      <TextField
        {...field("pattern")}
        label="Pattern"
        hint="A regular expression for the end of the output; (?c) first: case matters"
      />
      <FieldRow>
        <TextField {...field("exit_codes")} label="Exit codes" hint="And one of these: 1, 28" />
        <TextField {...field("signals")} label="Signals" hint="Or one of these: 9" />
      </FieldRow>
      <FieldRow>
        <TextField
          {...field("class")}
          label="Class"
          hint={chosen ? `Built in: ${chosen.says}` : "Built in, or a name of your own"}
          required
          list={classes}
        />
        {!chosen && <SelectField {...field("retry")} label="Tried again" options={RETRIES} />}
      </FieldRow>
      <datalist id={classes}>
        {known.classes.map(({ name, says }) => (
          <option key={name} value={name}>
            {says}
          </option>
        ))}
      </datalist>
      <TextField
        {...field("says")}
        label="What happened"
        hint={chosen ? `Empty: ${chosen.says}` : "In a few words; empty: its name"}
      />
      <TextField {...field("advice")} label="Advice" hint="What the job's owner can do about it" />
      <Trial rules={() => withDraft(known.rules, getValues())} />
    </FormDialog>
  );
}
