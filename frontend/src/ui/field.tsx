import { useId, type ComponentProps, type ReactNode } from "react";

import styles from "@/ui/field.module.css";

interface FieldProps {
  label: ReactNode;
  hint?: ReactNode;
  /** What is wrong with the value; shown under it and announced. */
  problem?: ReactNode;
  /** Receives what ties the control to its label, hint and problem. */
  children: (attributes: ControlAttributes) => ReactNode;
}

export interface ControlAttributes {
  id: string;
  "aria-describedby"?: string;
  "aria-invalid"?: true;
}

export function Field({ label, hint, problem, children }: FieldProps) {
  const id = useId();
  const noteId = `${id}-note`;
  const attributes: ControlAttributes = { id };
  if (hint || problem) attributes["aria-describedby"] = noteId;
  if (problem) attributes["aria-invalid"] = true;
  return (
    <div className={styles.field}>
      <label htmlFor={id} className={styles.label}>
        {label}
      </label>
      {children(attributes)}
      {(problem ?? hint) && (
        <div id={noteId} className={problem ? styles.problem : styles.hint}>
          {problem ?? hint}
        </div>
      )}
    </div>
  );
}

type InputProps = ComponentProps<"input">;

export function TextInput({ className, ...rest }: InputProps) {
  return (
    <input
      type="text"
      autoComplete="off"
      spellCheck={false}
      {...rest}
      className={[styles.control, className].filter(Boolean).join(" ")}
    />
  );
}

interface NumberInputProps extends Omit<InputProps, "value" | "onChange" | "type"> {
  value: number | undefined;
  onChange: (value: number | undefined) => void;
}

/** A whole or decimal number; empty is undefined. */
export function NumberInput({ value, onChange, ...rest }: NumberInputProps) {
  return (
    <TextInput
      {...rest}
      type="number"
      inputMode="decimal"
      value={value ?? ""}
      onChange={(event) => onChange(event.target.value === "" ? undefined : Number(event.target.value))}
    />
  );
}

export function TextArea({ className, ...rest }: ComponentProps<"textarea">) {
  return (
    <textarea
      spellCheck={false}
      {...rest}
      className={[styles.control, styles.area, className].filter(Boolean).join(" ")}
    />
  );
}

interface SelectProps extends ComponentProps<"select"> {
  options: readonly { value: string; label: string }[];
}

export function Select({ options, className, ...rest }: SelectProps) {
  return (
    <select {...rest} className={[styles.control, styles.select, className].filter(Boolean).join(" ")}>
      {options.map((option) => (
        <option key={option.value} value={option.value}>
          {option.label}
        </option>
      ))}
    </select>
  );
}

type Labelled<Props> = Props & Omit<FieldProps, "children">;

/** A field of one control. */
export function TextField({ label, hint, problem, ...rest }: Labelled<InputProps>) {
  return (
    <Field label={label} hint={hint} problem={problem}>
      {(attributes) => <TextInput {...rest} {...attributes} />}
    </Field>
  );
}

export function SelectField({ label, hint, problem, ...rest }: Labelled<SelectProps>) {
  return (
    <Field label={label} hint={hint} problem={problem}>
      {(attributes) => <Select {...rest} {...attributes} />}
    </Field>
  );
}

interface CheckboxProps extends Omit<InputProps, "type"> {
  label: ReactNode;
  /** The label is for screen readers only. */
  bare?: boolean;
}

export function Checkbox({ label, bare = false, ...rest }: CheckboxProps) {
  return (
    <label className={styles.checkbox}>
      <input type="checkbox" {...rest} />
      <span className={bare ? "visually-hidden" : undefined}>{label}</span>
    </label>
  );
}
