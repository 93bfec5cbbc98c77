import { useQuery } from "@tanstack/react-query";
import { getRouteApi, Link } from "@tanstack/react-router";

import { adviceListQuery, adviceQuery } from "@/api/cell-queries";
import type { Advice } from "@/api/schema";
import { counted, moment } from "@/components/format";
import { useSession } from "@/components/session";
import { AdviceForm } from "@/features/advice/advice-form";
import { AdviceResult } from "@/features/advice/advice-result";
import { EmptyState, ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { muted, PageLayout, Panel, Stack } from "@/ui/layout";
import styles from "@/features/advice/advice.module.css";

const route = getRouteApi("/cells/advice");
const TITLE = "Advice on cells";

/** Which cells each virtual cluster should get, from the jobs that it had. */
export function AdvicePage() {
  const me = useSession();
  if (!me.is_operator) {
    return (
      <PageLayout title={TITLE}>
        <EmptyState title="Operators ask for advice">
          You can <Link to="/cells">see how the cluster is divided</Link>.
        </EmptyState>
      </PageLayout>
    );
  }
  return <Adviser />;
}

function Adviser() {
  const { id } = route.useSearch();
  const navigate = route.useNavigate();
  const list = useQuery(adviceListQuery);
  const shown = id ?? list.data?.[0]?.id;
  return (
    <PageLayout
      title={TITLE}
      lead={
        <>
          <span>
            The adviser tries every division of the hardware on the jobs of the last days, for each virtual cluster
            separately.
          </span>
          <Link to="/cells">Back to the cells</Link>
        </>
      }
    >
      <div className={list.data?.length ? styles.ask : undefined}>
        <Panel title="Ask">
          <AdviceForm onAsked={(asked) => void navigate({ search: { id: asked.id } })} />
        </Panel>
        {list.data && list.data.length > 0 && <Earlier list={list.data} shown={shown} />}
      </div>
      <Stack>
        {list.isError && <ErrorNotice error={list.error} onRetry={() => void list.refetch()} />}
        {list.isPending && id === undefined && <SkeletonLines count={8} />}
        {shown !== undefined ? (
          <Answer key={shown} id={shown} />
        ) : (
          list.data && (
            <EmptyState title="No advice yet">
              Asking changes nothing. You can apply the answer in one step, or edit it first.
            </EmptyState>
          )
        )}
      </Stack>
    </PageLayout>
  );
}

function Earlier({ list, shown }: { list: readonly Advice[]; shown: string | undefined }) {
  return (
    <Panel title="Asked before">
      <ul className={styles.earlier}>
        {list.map((advice) => (
          <li key={advice.id}>
            <Link to="/cells/advice" search={{ id: advice.id }} aria-current={advice.id === shown || undefined}>
              {moment(advice.asked_at)}
            </Link>{" "}
            <span className={muted}>
              {counted(advice.days, "day")}, {stateText(advice)}
            </span>
          </li>
        ))}
      </ul>
    </Panel>
  );
}

function stateText({ state, applied_at }: Advice): string {
  if (applied_at) return "applied";
  return state === "done" ? "answered" : state;
}

function Answer({ id }: { id: string }) {
  const query = useQuery(adviceQuery(id));
  const advice = query.data;
  if (query.isError) return <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />;
  if (!advice) return <SkeletonLines count={8} />;
  if (advice.state === "failed") {
    return (
      <Notice tone="failed">
        {advice.problem || "No answer."}
        <ul>
          {advice.fields.map(({ field, problem }) => (
            <li key={field}>
              {field}: {problem}
            </li>
          ))}
        </ul>
      </Notice>
    );
  }
  if (advice.state !== "done") {
    return (
      <Panel title="Under way">
        <p role="status">
          {advice.state === "waiting"
            ? "Waiting for a worker."
            : "Private clusters are being simulated, one for each virtual cluster and choice of cells."}
        </p>
        <progress className={styles.progress} aria-label="Under way" />
      </Panel>
    );
  }
  return <AdviceResult advice={advice} />;
}
