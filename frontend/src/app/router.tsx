import { createRootRoute, createRoute, createRouter, Link, notFound } from "@tanstack/react-router";

import type { UserFilters } from "@/api/access-queries";
import type { AuditFilters } from "@/api/audit-queries";
import type { FailureFilters } from "@/api/failure-queries";
import type { LedgerFilters } from "@/api/ledger-queries";
import type { EventFilters } from "@/api/queries";
import type { ThroughputFilters } from "@/api/throughput-queries";
import type { UsageFilters } from "@/api/usage-queries";
import { lazyPage } from "@/app/lazy-page";
import { PageError } from "@/app/page-error";
import { Shell } from "@/app/shell";
import { type JobSearch, readJobSearch } from "@/components/job-search";
import { buttonClass } from "@/ui/button";
import { EmptyState, Skeleton } from "@/ui/feedback";
import { PageLayout } from "@/ui/layout";

const root = createRootRoute({ component: Shell, notFoundComponent: NotFound, errorComponent: PageError });

const text = (value: unknown): string | undefined => (typeof value === "string" && value ? value : undefined);
const whole = (value: unknown): number | undefined =>
  Number.isInteger(Number(value)) && value !== "" ? Number(value) : undefined;
/** A page of something that has a number is no page without one. */
const numbered = (value: string): void => {
  if (whole(value) === undefined) notFound({ throw: true });
};
const day = (value: unknown): string | undefined => {
  const written = text(value);
  return written && !Number.isNaN(Date.parse(`${written}T00:00`)) ? written : undefined;
};

const overview = createRoute({
  getParentRoute: () => root,
  path: "/",
  component: lazyPage(() => import("@/features/overview/overview-page"), "OverviewPage"),
});

const jobs = createRoute({
  getParentRoute: () => root,
  path: "/jobs",
  validateSearch: (search: Record<string, unknown>): JobSearch & { job?: number } => ({
    ...readJobSearch(search),
    job: whole(search.job ?? ""),
  }),
  component: lazyPage(() => import("@/features/jobs/jobs-page"), "JobsPage"),
});

const job = createRoute({
  getParentRoute: () => root,
  path: "/jobs/$id",
  beforeLoad: ({ params }) => numbered(params.id),
  validateSearch: (search: Record<string, unknown>): { tab?: string; rank?: number; path?: string } => ({
    tab: text(search.tab),
    rank: whole(search.rank ?? ""),
    path: text(search.path),
  }),
  component: lazyPage(() => import("@/features/job/job-page"), "JobPage"),
});

const compare = createRoute({
  getParentRoute: () => root,
  path: "/compare",
  // The address of a single job is read as a number.
  validateSearch: (search: Record<string, unknown>): { jobs?: string } => ({
    jobs: text(search.jobs) ?? whole(search.jobs ?? "")?.toString(),
  }),
  component: lazyPage(() => import("@/features/compare/compare-page"), "ComparePage"),
});

const submit = createRoute({
  getParentRoute: () => root,
  path: "/submit",
  validateSearch: (search: Record<string, unknown>): { clone?: number } => ({ clone: whole(search.clone) }),
  component: lazyPage(() => import("@/features/submit/submit-page"), "SubmitPage"),
});

const nodes = createRoute({
  getParentRoute: () => root,
  path: "/nodes",
  component: lazyPage(() => import("@/features/nodes/nodes-page"), "NodesPage"),
});

const node = createRoute({
  getParentRoute: () => root,
  path: "/nodes/$name",
  component: lazyPage(() => import("@/features/nodes/node-page"), "NodePage"),
});

const calendar = createRoute({
  getParentRoute: () => root,
  path: "/calendar",
  component: lazyPage(() => import("@/features/calendar/calendar-page"), "CalendarPage"),
});

const virtualClusters = createRoute({
  getParentRoute: () => root,
  path: "/virtual-clusters",
  component: lazyPage(() => import("@/features/virtual-clusters/virtual-clusters-page"), "VirtualClustersPage"),
});

const cells = createRoute({
  getParentRoute: () => root,
  path: "/cells",
  validateSearch: (search: Record<string, unknown>): { chain?: string; at?: string } => ({
    chain: text(search.chain),
    at: text(search.at),
  }),
  component: lazyPage(() => import("@/features/cells/cells-page"), "CellsPage"),
});

const sharing = createRoute({
  getParentRoute: () => root,
  path: "/sharing",
  component: lazyPage(() => import("@/features/sharing/sharing-page"), "SharingPage"),
});

const cellEditor = createRoute({
  getParentRoute: () => root,
  path: "/cells/edit",
  validateSearch: (search: Record<string, unknown>): { advice?: string } => ({ advice: text(search.advice) }),
  component: lazyPage(() => import("@/features/cell-editor/editor-page"), "EditorPage"),
});

const advice = createRoute({
  getParentRoute: () => root,
  path: "/cells/advice",
  validateSearch: (search: Record<string, unknown>): { id?: string } => ({ id: text(search.id) }),
  component: lazyPage(() => import("@/features/advice/advice-page"), "AdvicePage"),
});

const anomalies = createRoute({
  getParentRoute: () => root,
  path: "/virtual-clusters/$name/anomalies",
  component: lazyPage(() => import("@/features/anomalies/anomalies-page"), "AnomaliesPage"),
});

const targets = createRoute({
  getParentRoute: () => root,
  path: "/virtual-clusters/$name/targets",
  component: lazyPage(() => import("@/features/targets/targets-page"), "TargetsPage"),
});

const fairness = createRoute({
  getParentRoute: () => root,
  path: "/virtual-clusters/$name/fairness",
  component: lazyPage(() => import("@/features/fairness/fairness-page"), "FairnessPage"),
});
const market = createRoute({
  getParentRoute: () => root,
  path: "/market",
  validateSearch: (search: Record<string, unknown>): { tab?: string } => ({ tab: text(search.tab) }),
  component: lazyPage(() => import("@/features/market/market-page"), "MarketPage"),
});
const ledger = createRoute({
  getParentRoute: () => root,
  path: "/ledger",
  validateSearch: (search: Record<string, unknown>): LedgerFilters => ({
    kind: text(search.kind),
    view: text(search.view),
    party: text(search.party),
    job: whole(search.job),
    round: whole(search.round),
  }),
  component: lazyPage(() => import("@/features/ledger/ledger-page"), "LedgerPage"),
});
const failures = createRoute({
  getParentRoute: () => root,
  path: "/failures",
  validateSearch: (search: Record<string, unknown>): FailureFilters & { tab?: string } => ({
    tab: text(search.tab),
    failure: text(search.failure),
    node: text(search.node),
    tenant: text(search.tenant),
    since: day(search.since),
    until: day(search.until),
  }),
  component: lazyPage(() => import("@/features/failures/failures-page"), "FailuresPage"),
});
const tenants = createRoute({
  getParentRoute: () => root,
  path: "/tenants",
  component: lazyPage(() => import("@/features/tenants/tenants-page"), "TenantsPage"),
});

const tenant = createRoute({
  getParentRoute: () => root,
  path: "/tenants/$name",
  component: lazyPage(() => import("@/features/tenants/tenant-page"), "TenantPage"),
});

const usage = createRoute({
  getParentRoute: () => root,
  path: "/usage",
  validateSearch: (search: Record<string, unknown>): UsageFilters => ({
    by: text(search.by),
    since: day(search.since),
    until: day(search.until),
    tenant: text(search.tenant),
    virtual_cluster: text(search.virtual_cluster),
    gpu_model: text(search.gpu_model),
  }),
  component: lazyPage(() => import("@/features/usage/usage-page"), "UsagePage"),
});

const users = createRoute({
  getParentRoute: () => root,
  path: "/users",
  validateSearch: (search: Record<string, unknown>): UserFilters => ({
    q: text(search.q),
    tenant: text(search.tenant),
    state: text(search.state),
  }),
  component: lazyPage(() => import("@/features/users/users-page"), "UsersPage"),
});

const rounds = createRoute({
  getParentRoute: () => root,
  path: "/rounds",
  component: lazyPage(() => import("@/features/rounds/rounds-page"), "RoundsPage"),
});

const round = createRoute({
  getParentRoute: () => root,
  path: "/rounds/$number",
  beforeLoad: ({ params }) => numbered(params.number),
  component: lazyPage(() => import("@/features/rounds/round-page"), "RoundPage"),
});

const throughputFilters = (search: Record<string, unknown>): ThroughputFilters => ({
  tenant: text(search.tenant),
  application: text(search.application),
  gpu_model: text(search.gpu_model),
  partners: search.partners === true || search.partners === "true" ? "true" : undefined,
});

const throughputs = createRoute({
  getParentRoute: () => root,
  path: "/throughputs",
  validateSearch: throughputFilters,
  component: lazyPage(() => import("@/features/throughputs/throughputs-page"), "ThroughputsPage"),
});

const events = createRoute({
  getParentRoute: () => root,
  path: "/events",
  validateSearch: (search: Record<string, unknown>): EventFilters => ({
    job: whole(search.job ?? ""),
    job_name: text(search.job_name),
    kind: text(search.kind),
    tenant: text(search.tenant),
    node: text(search.node),
  }),
  component: lazyPage(() => import("@/features/events/events-page"), "EventsPage"),
});

const audit = createRoute({
  getParentRoute: () => root,
  path: "/audit",
  validateSearch: (search: Record<string, unknown>): AuditFilters => ({
    who: text(search.who),
    kind: text(search.kind),
    action: text(search.action),
    object: text(search.object),
    // A number in the address is read as one.
    subject: text(search.subject) ?? whole(search.subject ?? "")?.toString(),
    tenant: text(search.tenant),
    address: text(search.address),
    outcome: text(search.outcome),
    since: day(search.since),
    until: day(search.until),
  }),
  component: lazyPage(() => import("@/features/audit/audit-page"), "AuditPage"),
});

const webhook = createRoute({
  getParentRoute: () => root,
  path: "/webhooks/$id",
  component: lazyPage(() => import("@/features/webhooks/webhook-page"), "WebhookPage"),
});

const tokens = createRoute({
  getParentRoute: () => root,
  path: "/tokens",
  validateSearch: (search: Record<string, unknown>): { user?: string } => ({ user: text(search.user) }),
  component: lazyPage(() => import("@/features/tokens/tokens-page"), "TokensPage"),
});

const account = createRoute({
  getParentRoute: () => root,
  path: "/account",
  validateSearch: (search: Record<string, unknown>): { confirm?: string } => ({ confirm: text(search.confirm) }),
  component: lazyPage(() => import("@/features/account/account-page"), "AccountPage"),
});

export const router = createRouter({
  routeTree: root.addChildren([
    overview,
    jobs,
    job,
    compare,
    submit,
    nodes,
    node,
    virtualClusters,
    anomalies,
    targets,
    fairness,
    calendar,
    market,
    ledger,
    cells,
    sharing,
    cellEditor,
    advice,
    failures,
    tenants,
    tenant,
    usage,
    users,
    rounds,
    round,
    throughputs,
    events,
    audit,
    webhook,
    tokens,
    account,
  ]),
  defaultPreload: "intent",
  defaultPendingComponent: () => <Skeleton height="40vh" />,
  defaultErrorComponent: PageError,
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}

function NotFound() {
  return (
    <PageLayout title="Not found">
      <EmptyState
        title="There is no such page"
        action={
          <Link to="/" className={buttonClass()}>
            Go to the overview
          </Link>
        }
      >
        The address may be mistyped.
      </EmptyState>
    </PageLayout>
  );
}
