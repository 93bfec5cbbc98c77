import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useId } from "react";
import { useWatch } from "react-hook-form";

import type { FailureRule, FailureRuleList } from "@/api/schema";
import { changeFailureRules, failureRulesEdition, failureRulesQuery, setFailureRules } from "@/api/settings-queries";
import { useEdition } from "@/components/edition";
import { useSentForm } from "@/components/sent-form";
import { RETRIES, withRule } from "@/features/failures/rules";
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
  const editing = useEdition(failureRulesEdition, known);
  const save = useMutation({
    mutationFn: (draft: RuleDraft) =>
      rule
        ? setFailureRules(withDraft(editing.thing.rules, draft), editing.edition)
        : // Nothing that others changed is in the form.
          changeFailureRules((rules) => withDraft(rules, draft)),
    onSuccess: (saved, { name }) => {
      queries.setQueryData(failureRulesQuery.queryKey, saved);
      say("done", `Saved the rule ${name}.`);
      onClose();
    },
  });
  const current = rule && (editing.thing.rules.find(({ name }) => name === rule.name) ?? rule);
  const { sending, field, control, getValues } = useSentForm<RuleDraft>(current ? draftOf(current) : EMPTY, save, {
    editing,
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
          hint={chosen ? `Built in: ${chosen.says}` : "Built in, or your own name"}
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
        label="Failure class"
        hint={chosen ? `Empty: ${chosen.says}` : "A short description; empty: the name"}
      />
      <TextField {...field("advice")} label="Advice" hint="What the job's owner should do" />
      <Trial rules={() => withDraft(known.rules, getValues())} />
    </FormDialog>
  );
}

/** As it is typed: numbers are a list in one line. */
interface RuleDraft extends Omit<FailureRule, "exit_codes" | "signals"> {
  exit_codes: string;
  signals: string;
}

export const EMPTY: RuleDraft = {
  name: "",
  class: "",
  retry: "again",
  says: "",
  pattern: "",
  exit_codes: "",
  signals: "",
  severity: "error",
  advice: "",
};

export function draftOf(rule: FailureRule): RuleDraft {
  return {
    ...rule,
    retry: rule.retry ?? "again",
    exit_codes: rule.exit_codes.join(", "),
    signals: rule.signals.join(", "),
  };
}

/** Whether the job is tried again is only said of a class of one's own; `again` unless something was chosen. */
export function ruleOf(draft: RuleDraft, builtIn: readonly string[]): FailureRule {
  return {
    ...draft,
    name: draft.name.trim(),
    class: draft.class.trim(),
    retry: builtIn.includes(draft.class.trim()) ? null : (draft.retry ?? "again"),
    exit_codes: numbersIn(draft.exit_codes),
    signals: numbersIn(draft.signals),
  };
}

/** What is no number stays as it is, for the server to name it. */
function numbersIn(text: string): number[] {
  const words = text.split(/[\s,]+/).filter(Boolean);
  return words.map((word) => (Number.isNaN(Number(word)) ? word : Number(word))) as number[];
}
