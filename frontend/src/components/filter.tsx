import { Select } from "@/ui/field";
import styles from "@/components/filter.module.css";

interface FilterProps {
  label: string;
  value: string | undefined;
  options: readonly (string | { value: string; label: string })[];
  onChange: (value: string) => void;
}

/** One of the values by which a list can be narrowed down, or any. */
export function Filter({ label, value = "", options, onChange }: FilterProps) {
  const offered = options.map((option) => (typeof option === "string" ? { value: option, label: option } : option));
  const isKnown = !value || offered.some((option) => option.value === value);
  return (
    <Select
      aria-label={label}
      className={styles.choice}
      value={value}
      onChange={(event) => onChange(event.target.value)}
      options={[{ value: "", label: `${label}: any` }, ...(isKnown ? [] : [{ value, label: value }]), ...offered]}
    />
  );
}
