import { useQuery } from "@tanstack/react-query";
import { useState, type ReactNode } from "react";

import { gpuModelsQuery, jobCountsQuery, tenantsQuery, virtualClustersQuery } from "@/api/queries";
import { failureClassesQuery } from "@/api/settings-queries";
import { Filter, TypedSearch } from "@/components/filter";
import { failureClass, words } from "@/components/format";
import { filtersOf, isFiltered, JOB_STATES, type JobSearch, PERIODS, statesOf } from "@/components/job-search";
import { mayActAnywhere } from "@/components/roles";
import { useSession } from "@/components/session";
import { actionFilter, ActOnJobs } from "@/features/jobs/job-actions";
import { LABEL } from "@/features/jobs/job-groups";
import styles from "@/features/jobs/jobs-page.module.css";
import { Button } from "@/ui/button";
import { Select } from "@/ui/field";

interface FilterBarProps {
  search: JobSearch;
  onChange: (changed: Partial<JobSearch>) => void;
  onClear: () => void;
  /** Further buttons, at the end. */
  children?: ReactNode;
}

export function JobFilterBar({ search, onChange, onClear, children }: FilterBarProps) {
  const me = useSession();
  const mayChange = mayActAnywhere(me);
  const counts = useQuery(jobCountsQuery({ ...filtersOf(search), state: undefined }));
  const tenants = useQuery(tenantsQuery);
  const clusters = useQuery(virtualClustersQuery);
  const [isWide, setWide] = useState(FURTHER.some((name) => search[name]));
  const chosen = statesOf(search);
  const toggle = (state: string) => {
    const states = JOB_STATES.filter((each) => (each === state) !== chosen.includes(each));
    onChange({ state: states.join(",") });
  };
  return (
    <div className={styles.filters}>
      <div className={styles.states} role="group" aria-label="States">
        {JOB_STATES.map((state) => (
          <Button key={state} aria-pressed={chosen.includes(state)} onClick={() => toggle(state)}>
            {words(state)} {counts.data && <span>{counts.data[state].toLocaleString("en-US")}</span>}
          </Button>
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
          label="Time"
          value={search.within}
          options={Object.entries(PERIODS).map(([value, { label }]) => ({ value, label }))}
          onChange={(within) => onChange({ within })}
        />
        <Grouping group={search.group ?? ""} onChange={(group) => onChange({ group: group || undefined })} />
        <Button look="quiet" aria-expanded={isWide} onClick={() => setWide(!isWide)}>
          {isWide ? "Fewer filters" : "More filters"}
        </Button>
        {search.array && <span>Tasks of array {search.array}</span>}
        {isFiltered(search) && (
          <Button look="quiet" onClick={onClear}>
            Clear
          </Button>
        )}
        {mayChange && isFiltered(search) && (
          <ActOnJobs filter={actionFilter(filtersOf(search))}>Change all that match</ActOnJobs>
        )}
        {children}
      </div>
      {isWide && <FurtherFilters search={search} onChange={onChange} />}
    </div>
  );
}

const GROUPINGS = ["none", "array", "user", "tenant", LABEL];

function Grouping({ group, onChange }: { group: string; onChange: (group: string) => void }) {
  const isByLabel = group.startsWith(LABEL);
  return (
    <>
      <Select
        aria-label="Group by"
        value={isByLabel ? LABEL : group || "none"}
        onChange={(event) => onChange(event.target.value.replace("none", ""))}
        options={GROUPINGS.map((value) => ({ value, label: `Group by: ${value.replace(":", "")}` }))}
      />
      {isByLabel && (
        <TypedSearch
          label="Name of the label"
          value={group.slice(LABEL.length)}
          onChange={(name) => onChange(LABEL + name)}
        />
      )}
    </>
  );
}

/** Those that stand behind a button until one is used. */
const FURTHER = ["by", "label", "failure", "guarantee", "model"] as const;

function FurtherFilters({ search, onChange }: Pick<FilterBarProps, "search" | "onChange">) {
  const models = useQuery(gpuModelsQuery);
  const classes = useQuery(failureClassesQuery);
  return (
    <div className={styles.selects}>
      <TypedSearch label="Submitted by" value={search.by ?? ""} onChange={(by) => onChange({ by })} />
      <TypedSearch label="Label, or label=value" value={search.label ?? ""} onChange={(label) => onChange({ label })} />
      <Filter
        label="Failure"
        value={search.failure}
        options={(classes.data ?? []).map((name) => ({ value: name, label: failureClass(name) }))}
        onChange={(failure) => onChange({ failure })}
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
    </div>
  );
}
