import { useState } from "react";

import { asNumber, asText, type Path } from "@/components/yaml/document";
import { type DeclaredField, placeToRemove, valueAt } from "@/features/submit/declared";
import { type ControlAttributes, Field, NumberInput, Select, TextInput } from "@/ui/field";

interface DeclaredControlProps {
  field: DeclaredField;
  spec: Record<string, unknown>;
  problemOf: (field: string) => string | undefined;
  onEdit: (path: Path, value: unknown) => void;
}

/** The control of one field, as its declaration says. */
export function DeclaredControl({ field, spec, problemOf, onEdit }: DeclaredControlProps) {
  const change = (value: unknown) =>
    value === undefined ? onEdit(placeToRemove(spec, field.where), undefined) : onEdit(field.where.split("."), value);
  return (
    <Field label={field.label} hint={field.hint} problem={problemOf(field.where)}>
      {(attributes) => (
        <Control field={field} value={valueAt(spec, field.where)} attributes={attributes} onChange={change} />
      )}
    </Field>
  );
}

interface ControlProps {
  field: DeclaredField;
  value: unknown;
  attributes: ControlAttributes;
  onChange: (value: unknown) => void;
}

function Control({ field, value, attributes, onChange }: ControlProps) {
  if (field.kind === "words") return <WordsInput value={value} attributes={attributes} onChange={onChange} />;
  if (field.kind === "choice") {
    // What the text says is offered too, even when it is wrong.
    const words = [...new Set([...field.choices, asText(value)])].filter(Boolean);
    return (
      <Select
        {...attributes}
        value={asText(value)}
        options={[{ value: "", label: "Default" }, ...words.map((word) => ({ value: word, label: word }))]}
        onChange={(event) => onChange(event.target.value || undefined)}
      />
    );
  }
  if (field.kind === "number") {
    return (
      <NumberInput
        {...attributes}
        min={field.minimum}
        max={field.maximum}
        step={field.isWhole ? 1 : "any"}
        placeholder={field.placeholder}
        value={asNumber(value)}
        onChange={onChange}
      />
    );
  }
  return (
    <TextInput
      {...attributes}
      placeholder={field.placeholder}
      value={asText(value)}
      onChange={(event) => onChange(event.target.value || undefined)}
    />
  );
}

/** Words with commas between them. While they are typed the text is the person's. */
function WordsInput({ value, attributes, onChange }: Omit<ControlProps, "field">) {
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <TextInput
      {...attributes}
      value={typed ?? (Array.isArray(value) ? value.map(String).join(", ") : asText(value))}
      onBlur={() => setTyped(null)}
      onChange={(event) => {
        setTyped(event.target.value);
        const words = event.target.value.split(/[\s,]+/).filter(Boolean);
        onChange(words.length > 0 ? words : undefined);
      }}
    />
  );
}
