import { Search } from "lucide-react";
import { useState } from "react";

import type { Days } from "@/api/days";
import styles from "@/components/filter.module.css";
import { useTypingPause } from "@/components/typing";
import { Select, TextInput } from "@/ui/field";

interface FilterProps {
  label: string;
  value: string | undefined;
  options: readonly (string | { value: string; label: string })[];
  onChange: (value: string) => void;
  /** How the choice of none of them is called. */
  none?: string;
}

/** The width of a choice beside filters. */
export const choice = styles.choice ?? "";

/** One of the values by which a list can be narrowed down, or any. */
export function Filter({ label, value = "", options, onChange, none = "any" }: FilterProps) {
  const offered = options.map((option) => (typeof option === "string" ? { value: option, label: option } : option));
  const isKnown = !value || offered.some((option) => option.value === value);
  return (
    <Select
      aria-label={label}
      className={choice}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      options={[{ value: "", label: `${label}: ${none}` }, ...(isKnown ? [] : [{ value, label: value }]), ...offered]}
    />
  );
}

interface DayFiltersProps {
  days: Days;
  onChange: (changed: Days) => void;
}

/** The first and the last day of what is shown. */
export function DayFilters({ days, onChange }: DayFiltersProps) {
  return (["since", "until"] as const).map((name) => (
    <label key={name} className={styles.day}>
      {name === "since" ? "From" : "To"}
      <TextInput type="date" value={days[name] ?? ""} onChange={(event) => onChange({ [name]: event.target.value })} />
    </label>
  ));
}

interface TypedSearchProps {
  label: string;
  value: string;
  onChange: (value: string) => void;
}

/** Searches once the typing pauses. */
export function TypedSearch({ label, value, onChange }: TypedSearchProps) {
  const [typed, setTyped] = useState(value);
  const [known, setKnown] = useState(value);
  if (value !== known) {
    setKnown(value);
    setTyped(value);
  }
  useTypingPause(typed, (text) => {
    if (text !== value) onChange(text);
  });
  return (
    <div className={styles.search}>
      <Search size={15} aria-hidden />
      <TextInput
        type="search"
        aria-label={label}
        placeholder={label}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
    </div>
  );
}
