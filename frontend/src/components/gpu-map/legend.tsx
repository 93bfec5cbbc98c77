import { STATE_TEXT, type PlotState, type Tally } from "@/components/gpu-map/garden";
import type { ColourBy } from "@/components/gpu-map/paint";
import { tenantSlots } from "@/components/tenant-colour";
import styles from "@/components/gpu-map/gpu-map.module.css";

interface LegendProps {
  tally: Tally;
  colourBy: ColourBy;
  tenants: readonly string[];
}

/** What the colours mean, and how many GPUs each stands for. */
export function Legend({ tally, colourBy, tenants }: LegendProps) {
  const { byState, byTenant, seen, shared, opportunistic } = tally;
  const slots = tenantSlots(tenants);
  return (
    <ul className={styles.legend} aria-label="Legend">
      {colourBy === "tenant" &&
        tenants.map((tenant) => (
          <Entry
            key={tenant}
            colour={`var(--crop-${slots.get(tenant) ?? 1})`}
            text={tenant}
            count={byTenant.get(tenant) ?? 0}
          />
        ))}
      {colourBy === "state" &&
        (["running", "starting", "stopping"] as const).map((state) => (
          <Entry
            key={state}
            colour={`var(--state-${state})`}
            text={STATE_TEXT[state]}
            count={byState.get(state) ?? 0}
          />
        ))}
      {colourBy === "job" && <Entry className={styles.swatchJobs} text="In use, a colour for each job" count={seen} />}
      <StateEntry state="unknown" colour="var(--crop-none)" counts={byState} />
      <Entry
        className={styles.swatchFree}
        text="Free"
        count={(byState.get("free") ?? 0) + (byState.get("planned") ?? 0)}
      />
      <StateEntry state="closed" className={styles.swatchClosed} counts={byState} />
      <StateEntry state="unhealthy" className={styles.swatchBroken} counts={byState} />
      <StateEntry state="offline" className={styles.swatchBroken} counts={byState} />
      {shared > 0 && <Entry className={styles.swatchShared} text="Shared, filled by parts" count={shared} />}
      {opportunistic > 0 && <Entry className={styles.swatchFurrows} text="Hatched: opportunistic" />}
    </ul>
  );
}

interface EntryProps {
  text: string;
  count?: number;
  colour?: string;
  className?: string | undefined;
}

function Entry({ text, count, colour, className }: EntryProps) {
  return (
    <li>
      <span
        className={[styles.swatch, className].filter(Boolean).join(" ")}
        style={colour ? { background: colour } : undefined}
      />
      {text} {count !== undefined && <strong>{count}</strong>}
    </li>
  );
}

/** States that are rare appear only when there is something in them. */
function StateEntry({
  state,
  counts,
  ...rest
}: Omit<EntryProps, "text" | "count"> & { state: PlotState; counts: Map<PlotState, number> }) {
  const count = counts.get(state) ?? 0;
  return count > 0 ? <Entry text={STATE_TEXT[state]} count={count} {...rest} /> : null;
}
