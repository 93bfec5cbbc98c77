import { Search } from "lucide-react";
import { useEffect, useState } from "react";

import { TextInput } from "@/ui/field";
import styles from "@/components/typed-search.module.css";

const TYPING_PAUSE_MS = 300;

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
        aria-label={label}
        placeholder={label}
        value={typed}
        onChange={(event) => setTyped(event.target.value)}
      />
    </div>
  );
}
