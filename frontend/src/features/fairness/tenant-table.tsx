import type { TenantFairness } from "@/api/schema";
import { count } from "@/components/format";
import { figure } from "@/components/ledger/words";
import { dealingsText, gainText, percent, scalesOf } from "@/features/fairness/words";
import { DataTable } from "@/ui/data-table";
import { muted, oneLine } from "@/ui/layout";
import styles from "@/features/fairness/fairness.module.css";

/** One row for each tenant. */
export function TenantTable({ tenants }: { tenants: readonly TenantFairness[] }) {
  const scales = scalesOf(tenants);
  return (
    <DataTable
      label="Fairness by tenant"
      rows={tenants}
      rowKey={({ tenant }) => tenant}
      columns={[
        {
          header: "Tenant",
          isRowHeader: true,
          sortBy: ({ tenant }) => tenant,
          cell: ({ tenant, weight }) => (
            <>
              {tenant} <span className={muted}>weight {count(weight)}</span>
            </>
          ),
        },
        {
          header: "Jobs",
          className: oneLine,
          sortBy: (tenant) => tenant.jobs_running,
          cell: (tenant) => (
            <>
              {tenant.jobs_running} running, {tenant.jobs_waiting} waiting
              <br />
              <span className={muted}>want {count(tenant.demand_gpus)} GPUs</span>
            </>
          ),
        },
        {
          header: "GPUs received, of its entitlement",
          cell: (tenant) => <Bars tenant={tenant} scales={scales} />,
        },
        { header: "Compared with a private cluster", cell: (tenant) => <Gain tenant={tenant} /> },
        {
          header: "Rho",
          className: oneLine,
          sortBy: (tenant) => tenant.rho_worst,
          cell: (tenant) => <Rho {...tenant} />,
        },
        {
          header: "Tier and fraction",
          className: oneLine,
          sortBy: (tenant) => tenant.gpu_fraction,
          cell: (tenant) => <Fraction {...tenant} />,
        },
        { header: "Envy", className: oneLine, cell: (tenant) => <Envy tenant={tenant} /> },
        { header: "Lent and traded", cell: (tenant) => dealingsText(tenant) || UNKNOWN },
      ]}
    />
  );
}

const UNKNOWN = <span className={muted}>–</span>;

function Gain({ tenant }: { tenant: TenantFairness }) {
  const gain = gainText(tenant);
  if (gain === null) return UNKNOWN;
  return <strong className={tenant.better_off_alone ? styles.worse : undefined}>{gain}</strong>;
}

function Rho({ rho_worst: worst, rho_mean: mean }: Pick<TenantFairness, "rho_worst" | "rho_mean">) {
  if (worst === null) return UNKNOWN;
  return (
    <>
      {figure(worst)} at worst
      <br />
      <span className={muted}>{mean !== null && `${figure(mean)} on average`}</span>
    </>
  );
}

/** What of the GPU time that its jobs demanded it got, and what its tier promises them. */
function Fraction({
  tier,
  gpu_fraction: got,
  guaranteed_fraction: promised,
}: Pick<TenantFairness, "tier" | "gpu_fraction" | "guaranteed_fraction">) {
  if (tier === null && got === null) return UNKNOWN;
  const isBelow = got !== null && promised !== null && got < promised;
  return (
    <>
      {got === null ? UNKNOWN : <strong className={isBelow ? styles.worse : undefined}>{percent(got)}</strong>}{" "}
      {got !== null && <span className={muted}>of what it demanded</span>}
      {tier !== null && (
        <>
          <br />
          <span className={muted}>
            {tier}: {promised ? `${percent(promised)} guaranteed` : "best effort"}
          </span>
        </>
      )}
    </>
  );
}

function Envy({ tenant }: { tenant: TenantFairness }) {
  return (
    <>
      {gainText(tenant) === null ? UNKNOWN : tenant.envy > 0 ? percent(tenant.envy) : "none"}
      {tenant.envies && (
        <>
          <br />
          <span className={muted}>envies {tenant.envies}</span>
        </>
      )}
    </>
  );
}

/** For each model what it has as a bar, and where that would be if it had what it is entitled to. */
function Bars({ tenant, scales }: { tenant: TenantFairness; scales: ReadonlyMap<string, number> }) {
  const shown = [...scales].filter(([model]) => (tenant.entitled[model] ?? 0) + (tenant.received[model] ?? 0) > 0);
  if (shown.length === 0) return <span className={muted}>nothing now</span>;
  return (
    <ul className={styles.bars}>
      {shown.map(([model, most]) => {
        const received = tenant.received[model] ?? 0;
        const entitled = tenant.entitled[model] ?? 0;
        return (
          <li key={model}>
            <span>{model}</span>
            <span className={styles.track} aria-hidden>
              <span className={styles.received} style={{ width: `${(100 * received) / most}%` }} />
              <span className={styles.mark} style={{ left: `${(100 * entitled) / most}%` }} />
            </span>
            <span className={oneLine}>
              {figure(received)} <span className={muted}>of {figure(entitled)}</span>
            </span>
          </li>
        );
      })}
    </ul>
  );
}
