import { useMutation, useQueryClient } from "@tanstack/react-query";

import { answerOf, api } from "@/api/client";
import { tokensQuery } from "@/api/token-queries";
import { useSentForm } from "@/components/sent-form";
import { Button } from "@/ui/button";
import { Checkbox, TextField } from "@/ui/field";
import { Form } from "@/ui/form";
import { Panel } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

const EMPTY = { current: "", new: "", end_tokens: true };

export function PasswordPanel() {
  const say = useSay();
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: (body: typeof EMPTY) => answerOf(api.POST("/session/password", { body })),
    onSuccess: (_answer, { end_tokens: endTokens }) => {
      reset({ ...EMPTY, end_tokens: endTokens });
      say("done", "Your password is changed. Other browsers must sign in again.");
      void queries.invalidateQueries({ queryKey: tokensQuery.queryKey });
    },
  });
  const { sending, field, register, reset } = useSentForm(EMPTY, change);
  return (
    <Panel title="Password">
      <Form onSubmit={sending.onSubmit} notice={sending.notice}>
        <TextField
          {...field("current")}
          label="Present password"
          type="password"
          autoComplete="current-password"
          required
        />
        <TextField
          {...field("new")}
          label="New password"
          hint="At least 10 characters"
          type="password"
          autoComplete="new-password"
          required
        />
        <Checkbox {...register("end_tokens")} label="End all my API tokens, too" />
        <div>
          <Button type="submit" busy={sending.busy}>
            Change the password
          </Button>
        </div>
      </Form>
    </Panel>
  );
}
