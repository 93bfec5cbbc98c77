import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import type { FailureRule, FailureRuleMatch } from "@/api/schema";
import { tryFailureRules } from "@/api/settings-queries";
import { Button } from "@/ui/button";
import { ErrorNotice, Notice } from "@/ui/feedback";
import { Field, NumberInput, TextArea } from "@/ui/field";
import { pressed } from "@/ui/keys";
import { Panel, Stack } from "@/ui/layout";
import styles from "@/features/failures/failures.module.css";

/** Which of the rules in force an attempt would match. */
export function TrialPanel() {
  return (
    <Panel title="Try the rules">
      <Trial />
    </Panel>
  );
}

/** Tries rules on what an attempt wrote last; `rules` left out: those in force. Nothing is changed. */
export function Trial({ rules }: { rules?: () => readonly FailureRule[] }) {
  const [log, setLog] = useState("");
  const [exitCode, setExitCode] = useState<number | undefined>(1);
  const attempt = useMutation({
    mutationFn: () => tryFailureRules({ log, exit_code: exitCode ?? 1, rules: rules?.() }),
  });
  return (
    <Stack>
      <Field label="End of an output to test">
        {(attributes) => (
          <TextArea {...attributes} rows={3} value={log} onChange={(event) => setLog(event.target.value)} />
        )}
      </Field>
      <div className={styles.trial}>
        <Field label="Exit code" hint="128 + N when signal N ended it">
          {(attributes) => (
            <NumberInput
              {...attributes}
              min={1}
              max={255}
              value={exitCode}
              onChange={setExitCode}
              onKeyDown={(event) => {
                if (!pressed("field", event)) return;
                // It is tried, and what is around it is not sent.
                event.preventDefault();
                attempt.mutate();
              }}
            />
          )}
        </Field>
        <Button busy={attempt.isPending} onClick={() => attempt.mutate()}>
          Which rule matches?
        </Button>
      </div>
      {attempt.error && <ErrorNotice error={attempt.error} />}
      <div role="status">{attempt.data && <Found found={attempt.data} />}</div>
    </Stack>
  );
}

function Found({ found: { rule, tried_again: isTriedAgain } }: { found: FailureRuleMatch }) {
  if (!rule) return <Notice>No rule matches: the built-in rules decide.</Notice>;
  return (
    <Notice tone="running">
      <strong>{rule.name}</strong>: {rule.says}. The job is {isTriedAgain ? "tried again" : "not tried again"}.
    </Notice>
  );
}
