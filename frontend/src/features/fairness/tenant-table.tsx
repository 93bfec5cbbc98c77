import type { TenantFairness } from "@/api/ledger-types";
import { count } from "@/components/format";
import { figure } from "@/components/ledger/words";
import { dealingsText, gainText, percent, scalesOf } from "@/features/fairness/words";
import { muted, oneLine, TableFrame } from "@/ui/layout";
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
          <th>Rho</th>
          <th>Envy</th>
          <th>Lent and traded</th>
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
  const gain = gainText(tenant);
  const unknown = <span className={muted}>–</span>;
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
        {gain === null ? (
          unknown
        ) : (
          <strong className={tenant.better_off_alone ? styles.worse : undefined}>{gain}</strong>
        )}
      </td>
      <td className={oneLine}>
        {tenant.rho_worst === null ? (
          unknown
        ) : (
          <>
            {figure(tenant.rho_worst)} at worst
            <br />
            <span className={muted}>{tenant.rho_mean !== null && `${figure(tenant.rho_mean)} on average`}</span>
          </>
        )}
      </td>
      <td className={oneLine}>
        {gain === null ? unknown : tenant.envy > 0 ? percent(tenant.envy) : "none"}
        {tenant.envies && (
          <>
            <br />
            <span className={muted}>envies {tenant.envies}</span>
          </>
        )}
      </td>
      <td>{dealingsText(tenant) || unknown}</td>
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
