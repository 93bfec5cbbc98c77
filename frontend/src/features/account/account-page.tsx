import { useMutation, useQueryClient } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";

import { tokensQuery } from "@/api/access-queries";
import { answerOf, api } from "@/api/client";
import { words } from "@/components/format";
import { SecretsPanel } from "@/components/secrets/secrets-panel";
import { useSentForm } from "@/components/sent-form";
import { useSession } from "@/components/session";
import styles from "@/features/account/account.module.css";
import { LimitsPanel } from "@/features/account/limits-panel";
import { NotificationsPanel } from "@/features/account/notifications-panel";
import { TokensPanel } from "@/features/account/tokens-panel";
import { UsageReportsPanel } from "@/features/account/usage-reports-panel";
import { Button } from "@/ui/button";
import { Segments } from "@/ui/choice";
import { Checkbox, TextField } from "@/ui/field";
import { Form } from "@/ui/form";
import { Facts, PageLayout, Panel, Stack } from "@/ui/layout";
import { chooseTheme, useThemeChoice } from "@/ui/theme";
import { useSay } from "@/ui/toasts";

const route = getRouteApi("/account");

export function AccountPage() {
  const { confirm } = route.useSearch();
  const me = useSession();
  const theme = useThemeChoice();
  return (
    <PageLayout title="Account">
      <div className={styles.columns}>
        <Stack>
          <Panel title="You">
            <Facts
              facts={[
                ["User name", me.user.username],
                ["Email", me.user.email || "–"],
                ["Rights", me.is_operator ? "Operator of the cluster" : rightsOf(me.tenants)],
              ]}
            />
          </Panel>
          {me.tenants.map(({ name }) => (
            <LimitsPanel key={name} tenant={name} />
          ))}
          <Panel title="Theme">
            <Segments
              label="Theme"
              value={theme}
              onChange={chooseTheme}
              options={[
                { value: "system", label: "System" },
                { value: "light", label: "Light" },
                { value: "dark", label: "Dark" },
              ]}
            />
          </Panel>
          <NotificationsPanel confirm={confirm} />
          <UsageReportsPanel />
          <PasswordPanel />
        </Stack>
        <Stack>
          <TokensPanel />
          <SecretsPanel owner={null} mayChange />
        </Stack>
      </div>
    </PageLayout>
  );
}

function rightsOf(tenants: readonly { name: string; role: string }[]): string {
  return tenants.map(({ name, role }) => `${words(role)} of ${name}`).join(", ") || "Member of no tenant";
}

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
          label="Current password"
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
        <Checkbox {...register("end_tokens")} label="Also revoke my API tokens" />
        <div>
          <Button type="submit" busy={sending.busy}>
            Change the password
          </Button>
        </div>
      </Form>
    </Panel>
  );
}
