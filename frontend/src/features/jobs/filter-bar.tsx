import { useQuery } from "@tanstack/react-query";

import { gpuModelsQuery, jobCountsQuery, tenantsQuery, virtualClustersQuery } from "@/api/queries";
import { Filter, TypedSearch } from "@/components/filter";
import { words } from "@/components/format";
import { filtersOf, JOB_STATES, type JobSearch, statesOf } from "@/components/job-search";
import { mayActFor, useSession } from "@/components/session";
import { CancelMatching } from "@/features/jobs/cancel-jobs";
import styles from "@/features/jobs/jobs-page.module.css";
import { Button } from "@/ui/button";

interface FilterBarProps {
  search: JobSearch;
  onChange: (changed: Partial<JobSearch>) => void;
  onClear: () => void;
}

export function JobFilterBar({ search, onChange, onClear }: FilterBarProps) {
  const me = useSession();
  const mayCancel = me.is_operator || me.tenants.some(({ name }) => mayActFor(me, name));
  const counts = useQuery(jobCountsQuery({ ...filtersOf(search), state: undefined }));
  const tenants = useQuery(tenantsQuery);
  const clusters = useQuery(virtualClustersQuery);
  const models = useQuery(gpuModelsQuery);
  const chosen = statesOf(search);
  const toggle = (state: string) => {
    const states = JOB_STATES.filter((each) => (each === state) !== chosen.includes(each));
    onChange({ state: states.join(",") });
  };
  return (
    <div className={styles.filters}>
      <div className={styles.states} role="group" aria-label="States">
        {JOB_STATES.map((state) => (
          <button
            key={state}
            type="button"
            className={styles.state}
            aria-pressed={chosen.includes(state)}
            onClick={() => toggle(state)}
          >
            {words(state)} {counts.data && <span>{counts.data[state].toLocaleString("en-US")}</span>}
          </button>
        ))}
      </div>
      <div className={styles.selects}>
        <TypedSearch label="Search by name" value={search.q ?? ""} onChange={(q) => onChange({ q })} />
        <Filter
          label="Tenant"
          value={search.tenant}
          options={(tenants.data ?? []).map(({ name }) => name)}
          onChange={(tenant) => onChange({ tenant })}
        />
        <Filter
          label="Virtual cluster"
          value={search.vc}
          options={(clusters.data ?? []).map(({ name }) => name)}
          onChange={(vc) => onChange({ vc })}
        />
        <Filter
          label="Guarantee"
          value={search.guarantee}
          options={["guaranteed", "opportunistic"]}
          onChange={(guarantee) => onChange({ guarantee })}
        />
        <Filter
          label="GPU model"
          value={search.model}
          options={(models.data ?? []).map(({ name }) => name)}
          onChange={(model) => onChange({ model })}
        />
        {search.array && <span>Tasks of array {search.array}</span>}
        {Object.keys(search).length > 0 && (
          <>
            <Button look="quiet" onClick={onClear}>
              Clear
            </Button>
            {mayCancel && <CancelMatching filters={filtersOf(search)} />}
          </>
        )}
      </div>
    </div>
  );
}
