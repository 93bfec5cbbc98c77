import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { answerOf, api, ApiError } from "@/api/client";
import { tokensQuery } from "@/api/token-queries";
import { Button } from "@/ui/button";
import { ErrorNotice } from "@/ui/feedback";
import { Checkbox, Field, TextInput } from "@/ui/field";
import { Form } from "@/ui/form";
import { Panel } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

export function PasswordPanel() {
  const say = useSay();
  const [current, setCurrent] = useState("");
  const [wanted, setWanted] = useState("");
  const [endTokens, setEndTokens] = useState(true);
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: () =>
      answerOf(api.POST("/session/password", { body: { current, new: wanted, end_tokens: endTokens } })),
    onSuccess: () => {
      setCurrent("");
      setWanted("");
      say("done", "Your password is changed. Other browsers must sign in again.");
      void queries.invalidateQueries({ queryKey: tokensQuery.queryKey });
    },
  });
  const refusal = change.error instanceof ApiError ? change.error : null;
  return (
    <Panel title="Password">
      <Form onSubmit={() => change.mutate()}>
        {refusal?.fields.length === 0 && <ErrorNotice error={refusal} />}
        <Field label="Present password" problem={refusal?.problem("current")}>
          {(attributes) => (
            <TextInput
              {...attributes}
              type="password"
              autoComplete="current-password"
              required
              value={current}
              onChange={(event) => setCurrent(event.target.value)}
            />
          )}
        </Field>
        <Field label="New password" hint="At least 10 characters" problem={refusal?.problem("new")}>
          {(attributes) => (
            <TextInput
              {...attributes}
              type="password"
              autoComplete="new-password"
              required
              value={wanted}
              onChange={(event) => setWanted(event.target.value)}
            />
          )}
        </Field>
        <Checkbox
          label="End all my API tokens, too"
          checked={endTokens}
          onChange={(event) => setEndTokens(event.target.checked)}
        />
        <div>
          <Button type="submit" busy={change.isPending}>
            Change the password
          </Button>
        </div>
      </Form>
    </Panel>
  );
}
