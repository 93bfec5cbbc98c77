import { Link } from "@tanstack/react-router";

import type { Anomalies, Anomaly } from "@/api/schema";
import { counted, duration, moment } from "@/components/format";
import { useSession } from "@/components/session";
import { Tag } from "@/components/state-badge";
import { DataTable, type Column } from "@/ui/data-table";
import { muted, oneLine, prose } from "@/ui/layout";
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

const COLUMNS: readonly Column<Anomaly>[] = [
  {
    header: "Job",
    isRowHeader: true,
    cell: (anomaly) => (
      <>
        <Link to="/jobs/$id" params={{ id: String(anomaly.job) }}>
          {anomaly.name || "job"} #{anomaly.job}
        </Link>{" "}
        {anomaly.tenant && <span className={muted}>{anomaly.tenant}</span>}
      </>
    ),
  },
  { header: "GPUs", isNumeric: true, cell: ({ gpus }) => gpus },
  { header: "Submitted", className: oneLine, cell: (anomaly) => moment(anomaly.submitted_at) },
  { header: "Here", isNumeric: true, className: oneLine, cell: (anomaly) => duration(anomaly.real_delay_seconds) },
  { header: "Alone", isNumeric: true, className: oneLine, cell: (anomaly) => duration(anomaly.private_delay_seconds) },
  {
    header: "Longer by",
    isNumeric: true,
    className: oneLine,
    cell: (anomaly) => <strong>{duration(anomaly.extra_seconds)}</strong>,
  },
  {
    header: "Cause",
    className: prose,
    cell: (anomaly) => (
      <>
        <strong>{CAUSES[anomaly.cause]}</strong>{" "}
        {anomaly.hard_affinity && <Tag title="Its GPUs had to be near each other">had to be near</Tag>}
        {anomaly.message && <p className={muted}>{anomaly.message}</p>}
      </>
    ),
  },
];
/** For operators, who may see rounds. */
const ROUND: Column<Anomaly> = {
  header: "Round",
  cell: ({ round }) =>
    round === null ? (
      "–"
    ) : (
      <Link to="/rounds/$number" params={{ number: String(round) }}>
        {round}
      </Link>
    ),
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
      <DataTable
        label="Jobs that waited longer here"
        rows={anomalies}
        rowKey={({ job }) => job}
        columns={[...COLUMNS, me.is_operator && ROUND]}
      />
    </>
  );
}
