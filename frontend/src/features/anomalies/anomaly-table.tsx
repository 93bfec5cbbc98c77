import { Link } from "@tanstack/react-router";

import type { Anomalies, Anomaly } from "@/api/cell-types";
import { counted, duration, moment } from "@/components/format";
import { useSession } from "@/components/session";
import { Tag } from "@/components/state-badge";
import { muted, numeric, oneLine, prose, TableFrame } from "@/ui/layout";
import styles from "@/features/anomalies/anomalies.module.css";

const CAUSES: Record<Anomaly["cause"], string> = {
  fragmentation: "Fragmentation",
  hardware: "Broken hardware",
  reclaim: "Waited for a reclaim",
  order: "Order of the queue",
  quota: "Quota",
  lent: "Lent to others",
  other: "Other",
};

/** The jobs that waited longer than they would have alone, worst first, and why. */
export function AnomalyTable({ measured }: { measured: Anomalies }) {
  const me = useSession();
  const { anomalies, count, hard_affinity_count: hard } = measured;
  return (
    <>
      <p className={styles.summary}>
        {counted(count, "job")} waited {duration(measured.total_extra_seconds)} longer in all
        {hard > 0 && `; ${hard} of them had to be near together`}. Less than {duration(measured.tolerance_seconds)} does
        not count.
        {count > anomalies.length && ` The worst ${anomalies.length} are shown.`}
      </p>
      <TableFrame label="Jobs that waited longer here">
        <thead>
          <tr>
            <th>Job</th>
            <th className={numeric}>GPUs</th>
            <th>Submitted</th>
            <th className={numeric}>Here</th>
            <th className={numeric}>Alone</th>
            <th className={numeric}>Longer by</th>
            <th>Cause</th>
            {me.is_operator && <th>Round</th>}
          </tr>
        </thead>
        <tbody>
          {anomalies.map((anomaly) => (
            <Row key={anomaly.job} anomaly={anomaly} showRound={me.is_operator} />
          ))}
        </tbody>
      </TableFrame>
    </>
  );
}

function Row({ anomaly, showRound }: { anomaly: Anomaly; showRound: boolean }) {
  return (
    <tr>
      <td>
        <Link to="/jobs/$id" params={{ id: String(anomaly.job) }}>
          {anomaly.name || "job"} #{anomaly.job}
        </Link>{" "}
        {anomaly.tenant && <span className={muted}>{anomaly.tenant}</span>}
      </td>
      <td className={numeric}>{anomaly.gpus}</td>
      <td className={oneLine}>{moment(anomaly.submitted_at)}</td>
      <td className={`${numeric} ${oneLine}`}>{duration(anomaly.real_delay_seconds)}</td>
      <td className={`${numeric} ${oneLine}`}>{duration(anomaly.private_delay_seconds)}</td>
      <td className={`${numeric} ${oneLine}`}>
        <strong>{duration(anomaly.extra_seconds)}</strong>
      </td>
      <td className={prose}>
        <strong>{CAUSES[anomaly.cause]}</strong>{" "}
        {anomaly.hard_affinity && <Tag title="Its GPUs had to be near to each other">had to be near</Tag>}
        {anomaly.message && <p className={muted}>{anomaly.message}</p>}
      </td>
      {showRound && (
        <td>
          {anomaly.round === null ? (
            "–"
          ) : (
            <Link to="/rounds/$number" params={{ number: String(anomaly.round) }}>
              {anomaly.round}
            </Link>
          )}
        </td>
      )}
    </tr>
  );
}
