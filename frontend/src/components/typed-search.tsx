import { Search } from "lucide-react";
import { useState } from "react";

import { useTypingPause } from "@/components/typing";
import { TextInput } from "@/ui/field";
import styles from "@/components/typed-search.module.css";

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
