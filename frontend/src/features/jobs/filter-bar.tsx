import { useQuery } from "@tanstack/react-query";
import { Search } from "lucide-react";
import { useEffect, useState } from "react";

import { gpuModelsQuery, jobCountsQuery, tenantsQuery, virtualClustersQuery } from "@/api/queries";
import { filtersOf, JOB_STATES, statesOf, type JobSearch } from "@/components/job-search";
import { words } from "@/components/format";
import { Button } from "@/ui/button";
import { Select, TextInput } from "@/ui/field";
import styles from "@/features/jobs/jobs-page.module.css";

interface FilterBarProps {
  search: JobSearch;
  onChange: (changed: Partial<JobSearch>) => void;
  onClear: () => void;
}

const TYPING_PAUSE_MS = 300;

export function JobFilterBar({ search, onChange, onClear }: FilterBarProps) {
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
        <NameSearch value={search.q ?? ""} onChange={(q) => onChange({ q })} />
        <Choice
          label="Tenant"
          value={search.tenant}
          names={tenants.data?.map(({ name }) => name)}
          onChange={(tenant) => onChange({ tenant })}
        />
        <Choice
          label="Virtual cluster"
          value={search.vc}
          names={clusters.data?.map(({ name }) => name)}
          onChange={(vc) => onChange({ vc })}
        />
        <Choice
          label="Guarantee"
          value={search.guarantee}
          names={["guaranteed", "opportunistic"]}
          onChange={(guarantee) => onChange({ guarantee })}
        />
        <Choice
          label="GPU model"
          value={search.model}
          names={models.data?.map(({ name }) => name)}
          onChange={(model) => onChange({ model })}
        />
        {Object.keys(search).length > 0 && (
          <Button look="quiet" onClick={onClear}>
            Clear
          </Button>
        )}
      </div>
    </div>
  );
}

/** Searches once the typing pauses. */
function NameSearch({ value, onChange }: { value: string; onChange: (value: string) => void }) {
  const [typed, setTyped] = useState(value);
  const [known, setKnown] = useState(value);
  if (value !== known) {
    setKnown(value);
    setTyped(value);
  }
  useEffect(() => {
    if (typed === value) return;
    const timer = setTimeout(() => onChange(typed), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [typed, value, onChange]);
  return (
    <div className={styles.search}>
      <Search size={15} aria-hidden />
      <TextInput
        type="search"
        aria-label="Search by name"
        placeholder="Search by name"
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
    </div>
  );
}

interface ChoiceProps {
  label: string;
  value: string | undefined;
  names: readonly string[] | undefined;
  onChange: (value: string) => void;
}

function Choice({ label, value = "", names = [], onChange }: ChoiceProps) {
  const known = value && !names.includes(value) ? [value, ...names] : names;
  return (
    <Select
      aria-label={label}
      className={styles.choice}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      options={[{ value: "", label: `${label}: any` }, ...known.map((name) => ({ value: name, label: name }))]}
    />
  );
}
