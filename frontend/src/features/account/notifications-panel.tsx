import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useEffect, useState } from "react";

import { ApiError } from "@/api/client";
import { changeNotifications, confirmAddress, notificationsQuery, setAddress } from "@/api/notice-queries";
import type { NotificationSettings } from "@/api/schema";
import { meQuery } from "@/api/queries";
import { isAdminOf } from "@/components/roles";
import { useSession } from "@/components/session";
import { Button } from "@/ui/button";
import { ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { Checkbox, Field, Select, TextInput } from "@/ui/field";
import { Form } from "@/ui/form";
import { Panel, Stack } from "@/ui/layout";
import { useSay } from "@/ui/toasts";
import styles from "@/components/notices/notices.module.css";

const JOB_NOTICES = [
  { value: "all", label: "Start, end, failure and preemption" },
  { value: "failures", label: "Failures only" },
  { value: "none", label: "Nothing" },
];

/** What one gets by e-mail. `confirm` is out of the link in a mail to a new address. */
export function NotificationsPanel({ confirm }: { confirm?: string | undefined }) {
  const query = useQuery(notificationsQuery);
  useConfirmation(confirm);
  return (
    <Panel title="E-mail">
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines count={3} />}
      {query.data && <Choices settings={query.data} />}
    </Panel>
  );
}

/** Confirm a new address once, and forget the link. */
function useConfirmation(token: string | undefined) {
  const say = useSay();
  const queries = useQueryClient();
  const navigate = useNavigate();
  const { mutate } = useMutation({
    mutationFn: confirmAddress,
    onSuccess: ({ address }) => {
      say("done", `Mail goes to ${address} from now on.`);
      void queries.invalidateQueries({ queryKey: notificationsQuery.queryKey });
      void queries.invalidateQueries({ queryKey: meQuery.queryKey });
    },
    onError: (error) => say("failed", error.message),
    onSettled: () => void navigate({ to: "/account", search: {}, replace: true }),
  });
  useEffect(() => {
    if (token) mutate(token);
  }, [token, mutate]);
}

function Choices({ settings }: { settings: NotificationSettings }) {
  const me = useSession();
  const say = useSay();
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: changeNotifications,
    onSuccess: (saved) => queries.setQueryData(notificationsQuery.queryKey, saved),
    onError: (error) => say("failed", error.message),
  });
  const isAdmin = me.tenants.some(({ name }) => isAdminOf(me, name));
  return (
    <Stack>
      {!settings.can_send && <Notice>This installation has no mail server: no mail is sent.</Notice>}
      {settings.problem && <Notice tone="failed">The last mail could not be sent. {settings.problem}</Notice>}
      <Address settings={settings} key={settings.address} />
      <Field label="My jobs" hint="A job can override this: notify in its specification.">
        {(attributes) => (
          <Select
            {...attributes}
            value={settings.jobs}
            options={JOB_NOTICES}
            onChange={(event) => change.mutate({ jobs: event.target.value as NotificationSettings["jobs"] })}
          />
        )}
      </Field>
      {isAdmin && (
        <Checkbox
          label="Budgets and webhooks of tenants that I administer"
          checked={settings.tenants}
          onChange={(event) => change.mutate({ tenants: event.target.checked })}
        />
      )}
      {me.is_operator && (
        <Checkbox
          label="Nodes that are lost or cordoned"
          checked={settings.cluster}
          onChange={(event) => change.mutate({ cluster: event.target.checked })}
        />
      )}
    </Stack>
  );
}

function Address({ settings }: { settings: NotificationSettings }) {
  const say = useSay();
  const queries = useQueryClient();
  const [address, setDraft] = useState(settings.address);
  const save = useMutation({
    mutationFn: setAddress,
    onSuccess: ({ confirmation_sent: isSent }, wanted) => {
      say("done", isSent ? `Mail sent to ${wanted}. Open its link to confirm the address.` : "Saved.");
      void queries.invalidateQueries({ queryKey: notificationsQuery.queryKey });
      void queries.invalidateQueries({ queryKey: meQuery.queryKey });
    },
  });
  const refusal = save.error instanceof ApiError ? save.error : null;
  return (
    <Form className={styles.inline} onSubmit={() => save.mutate(address.trim())}>
      <Field label="Address" problem={refusal?.problem("address") ?? refusal?.message}>
        {(attributes) => (
          <TextInput
            {...attributes}
            type="email"
            autoComplete="email"
            value={address}
            onChange={(event) => setDraft(event.target.value)}
          />
        )}
      </Field>
      <Button type="submit" busy={save.isPending} disabled={address.trim() === settings.address}>
        Change
      </Button>
    </Form>
  );
}
