import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { setUsageReport, usageReportsQuery } from "@/api/notice-queries";
import type { UsageSubscription } from "@/api/schema";
import { useSession } from "@/components/session";
import { ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { Field, Select } from "@/ui/field";
import { Panel, Stack } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

const PERIODS = [
  { value: "", label: "No report" },
  { value: "week", label: "Each Monday, for the week" },
  { value: "month", label: "On the first, for the month" },
];

/** Which tenants' use is mailed, to those who administer some, and to operators that of the cluster. */
export function UsageReportsPanel() {
  const me = useSession();
  const administered = me.tenants.filter(({ role }) => role === "admin").map(({ name }) => name);
  const tenants = me.is_operator ? [null, ...administered] : administered;
  const query = useQuery({ ...usageReportsQuery, enabled: tenants.length > 0 });
  if (tenants.length === 0) return null;
  return (
    <Panel title="Usage reports">
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
      {query.isPending && <SkeletonLines count={2} />}
      {query.data && (
        <Stack>
          {tenants.map((tenant) => (
            <Report key={tenant ?? ""} tenant={tenant} reports={query.data} />
          ))}
        </Stack>
      )}
    </Panel>
  );
}

function Report({ tenant, reports }: { tenant: string | null; reports: readonly UsageSubscription[] }) {
  const say = useSay();
  const queries = useQueryClient();
  const change = useMutation({
    mutationFn: setUsageReport,
    onError: (error) => say("failed", error.message),
    onSettled: () => queries.invalidateQueries({ queryKey: usageReportsQuery.queryKey }),
  });
  return (
    <Field label={tenant === null ? "Use of the cluster" : `Use of ${tenant}`}>
      {(attributes) => (
        <Select
          {...attributes}
          value={reports.find((each) => each.tenant === tenant)?.period ?? ""}
          options={PERIODS}
          disabled={change.isPending}
          onChange={({ target }) =>
            change.mutate({ tenant, period: (target.value || null) as UsageSubscription["period"] | null })
          }
        />
      )}
    </Field>
  );
}
