import type { TenantFairness } from "@/api/ledger-types";
import { count } from "@/components/format";
import { figure, gpusText } from "@/components/ledger/words";
import { amount } from "@/components/lot";
import { figureOr, gainText, percent, scalesOf } from "@/features/fairness/words";
import { muted, numeric, oneLine, TableFrame } from "@/ui/layout";
import styles from "@/features/fairness/fairness.module.css";

/** One row for each tenant. */
export function TenantTable({ tenants }: { tenants: readonly TenantFairness[] }) {
  const scales = scalesOf(tenants);
  return (
    <TableFrame label="Fairness by tenant">
      <thead>
        <tr>
          <th>Tenant</th>
          <th>Jobs</th>
          <th>GPUs received of those entitled to</th>
          <th>Here and alone</th>
          <th className={numeric}>Rho, worst</th>
          <th className={numeric}>Mean</th>
          <th>Envy</th>
          <th className={numeric}>Borrowed</th>
          <th className={numeric}>Lent</th>
          <th>Traded</th>
          <th className={numeric}>Paid</th>
        </tr>
      </thead>
      <tbody>
        {tenants.map((tenant) => (
          <Row key={tenant.tenant} tenant={tenant} scales={scales} />
        ))}
      </tbody>
    </TableFrame>
  );
}

function Row({ tenant, scales }: { tenant: TenantFairness; scales: ReadonlyMap<string, number> }) {
  const { traded_in: gained, traded_out: given } = tenant;
  return (
    <tr>
      <th scope="row">
        {tenant.tenant} <span className={muted}>weight {count(tenant.weight)}</span>
      </th>
      <td className={oneLine}>
        {tenant.jobs_running} running, {tenant.jobs_waiting} waiting
        <br />
        <span className={muted}>want {count(tenant.demand_gpus)} GPUs</span>
      </td>
      <td>
        <Bars tenant={tenant} scales={scales} />
      </td>
      <td>
        <strong className={tenant.better_off_alone ? styles.worse : undefined}>{gainText(tenant)}</strong>
      </td>
      <td className={numeric}>{figureOr(tenant.rho_worst)}</td>
      <td className={numeric}>{figureOr(tenant.rho_mean)}</td>
      <td>{tenant.envy > 0 ? `${percent(tenant.envy)}${tenant.envies ? ` of ${tenant.envies}` : ""}` : "none"}</td>
      <td className={numeric}>{figureOr(tenant.borrowed)}</td>
      <td className={numeric}>{figureOr(tenant.lent)}</td>
      <td className={oneLine}>
        {gpusText(gained) && `got ${gpusText(gained)}`}
        {gpusText(gained) && <br />}
        {gpusText(given) ? `for ${gpusText(given)}` : <span className={muted}>–</span>}
      </td>
      <td className={numeric}>{tenant.paid > 0 ? amount(tenant.paid) : "–"}</td>
    </tr>
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
