import { IdleGpusPanel } from "@/features/failures/idle-gpus-panel";
import { RulesPanel } from "@/features/failures/rules-panel";
import { TrialPanel } from "@/features/failures/trial";
import { useSession } from "@/components/session";
import { PageLayout } from "@/ui/layout";

/** What the site knows of failures, and what is done about jobs that hold GPUs and do nothing. */
export function FailuresPage() {
  const me = useSession();
  return (
    <PageLayout title="Failures" lead="Failure classification rules and the idle-GPU policy.">
      <RulesPanel />
      {me.is_operator && <TrialPanel />}
      <IdleGpusPanel />
    </PageLayout>
  );
}
