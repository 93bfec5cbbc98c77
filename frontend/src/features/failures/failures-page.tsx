import { getRouteApi } from "@tanstack/react-router";

import { useSession } from "@/components/session";
import { FailureList } from "@/features/failures/failure-list";
import { IdleGpusPanel } from "@/features/failures/idle-gpus-panel";
import { RulesPanel } from "@/features/failures/rules-panel";
import { TrialPanel } from "@/features/failures/trial";
import { Tabs } from "@/ui/choice";
import { PageLayout, Stack } from "@/ui/layout";

const route = getRouteApi("/failures");
const TABS = ["failures", "rules"] as const;
type Tab = (typeof TABS)[number];

/** Attempts that failed, and by which rules failures are classified. */
export function FailuresPage() {
  const { tab } = route.useSearch();
  const navigate = route.useNavigate();
  const me = useSession();
  return (
    <PageLayout
      title="Failures"
      lead={me.is_operator ? "Failed attempts of all tenants' jobs." : "Failed attempts of your tenants' jobs."}
    >
      <Tabs<Tab>
        label="Failures and rules"
        value={TABS.find((each) => each === tab) ?? "failures"}
        onChange={(next) => void navigate({ search: next === "failures" ? {} : { tab: next }, replace: true })}
        tabs={[
          { value: "failures", label: "Failures", content: () => <FailureList /> },
          {
            value: "rules",
            label: "Rules",
            content: () => (
              <Stack>
                <RulesPanel />
                {me.is_operator && <TrialPanel />}
                <IdleGpusPanel />
              </Stack>
            ),
          },
        ]}
      />
    </PageLayout>
  );
}
