import { useState } from "react";

import type { ChosenPlugin, PluginParameter, Plugins } from "@/api/schema";
import { duration, words } from "@/components/format";
import styles from "@/features/virtual-clusters/virtual-clusters.module.css";
import { Checkbox, Field, NumberInput, Select, TextInput } from "@/ui/field";
import { FieldRow } from "@/ui/form";

interface PluginChoiceProps {
  label: string;
  /** Undefined until they are known. */
  plugins: Plugins["policies"] | undefined;
  chosen: ChosenPlugin;
  onChange: (chosen: ChosenPlugin) => void;
  /** What the server objects to in a field of the choice: "name", "parameters" or "parameters.NAME". */
  problem: (field: string) => string | undefined;
}

/** A policy or a placer by name, what it does, and its parameters with what they may be. */
export function PluginChoice({ label, plugins, chosen, onChange, problem }: PluginChoiceProps) {
  const plugin = plugins?.find(({ name }) => name === chosen.name);
  const names = plugins?.map(({ name }) => name) ?? [chosen.name];
  // Parameters that it no longer has have no field of their own.
  const strange = Object.keys(chosen.parameters).filter(
    (parameter) => !plugin?.parameters.some(({ name }) => name === parameter),
  );
  const inGeneral = ["name", "parameters", ...strange.map((parameter) => `parameters.${parameter}`)];
  const known = names.includes(chosen.name) ? names : [chosen.name, ...names];
  return (
    <div className={styles.plugin} role="group" aria-label={label}>
      <Field label={label} hint={plugin?.summary} problem={inGeneral.map(problem).find(Boolean)}>
        {(attributes) => (
          <Select
            {...attributes}
            value={chosen.name}
            onChange={(event) => onChange({ name: event.target.value, parameters: {} })}
            options={known.map((name) => ({ value: name, label: name }))}
          />
        )}
      </Field>
      {plugin && plugin.parameters.length > 0 && (
        <div className={styles.parameters}>
          <FieldRow>
            {plugin.parameters.map((parameter) => (
              <ParameterField
                key={`${chosen.name} ${parameter.name}`}
                parameter={parameter}
                value={chosen.parameters[parameter.name] ?? parameter.default}
                problem={problem(`parameters.${parameter.name}`)}
                onChange={(value) =>
                  onChange({ ...chosen, parameters: withParameter(chosen.parameters, parameter, value) })
                }
              />
            ))}
          </FieldRow>
        </div>
      )}
    </div>
  );
}

interface ParameterFieldProps {
  parameter: PluginParameter;
  value: unknown;
  problem: string | undefined;
  onChange: (value: unknown) => void;
}

function ParameterField({ parameter, value, problem, onChange }: ParameterFieldProps) {
  const label = parameterLabel(parameter.name);
  // What stands there: a field that is emptied stays empty, and a comma at the end of a list is no entry yet.
  const [typed, setTyped] = useState(() => inOneLine(value));
  const type = (text: string, meant: unknown) => {
    setTyped(text);
    onChange(meant);
  };
  if (typeof parameter.default === "boolean") {
    return (
      <div className={styles.switch}>
        <Checkbox label={label} checked={value === true} onChange={(event) => onChange(event.target.checked)} />
        {problem && <div className={styles.problem}>{problem}</div>}
      </div>
    );
  }
  const usual = inOneLine(parameter.default);
  return (
    <Field label={label} hint={usual && `Default: ${usual}`} problem={problem}>
      {(attributes) =>
        typeof parameter.default === "number" ? (
          <NumberInput
            {...attributes}
            step={parameter.type === "int" ? 1 : "any"}
            placeholder={usual}
            value={typed === "" ? undefined : Number(typed)}
            onChange={(number) => type(inOneLine(number), number)}
          />
        ) : parameter.choices.length ? (
          <Select
            {...attributes}
            value={String(value)}
            onChange={(event) => onChange(event.target.value)}
            options={parameter.choices.map((choice) => ({ value: choice, label: words(choice) }))}
          />
        ) : parameter.type === "list" ? (
          <TextInput
            {...attributes}
            placeholder="Values, separated by commas"
            value={typed}
            onChange={(event) => type(event.target.value, entriesOf(event.target.value, ","))}
          />
        ) : (
          <TextInput
            {...attributes}
            placeholder={usual}
            value={typed}
            onChange={(event) => type(event.target.value, event.target.value)}
          />
        )
      }
    </Field>
  );
}

/** Entries of a list between separators, numbers as numbers. */
export function entriesOf(text: string, separator: string): unknown[] {
  return text
    .split(separator)
    .map((entry) => entry.trim())
    .filter(Boolean)
    .map(entryOf);
}

function entryOf(text: string): unknown {
  const number = Number(text);
  return Number.isNaN(number) ? text : number;
}

/** The parameters after one was set. What is as it would be anyway, and what was emptied, is left out. */
export function withParameter(
  parameters: Readonly<Record<string, unknown>>,
  { name, default: usual }: Pick<PluginParameter, "name" | "default">,
  value: unknown,
): Record<string, unknown> {
  const rest = Object.fromEntries(Object.entries(parameters).filter(([other]) => other !== name));
  const isEmpty = value === undefined || value === "" || (Array.isArray(value) && value.length === 0);
  return isEmpty || JSON.stringify(value) === JSON.stringify(usual) ? rest : { ...rest, [name]: value };
}

/** A value as people read it: lists with commas, nothing for none. */
function inOneLine(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.join(", ");
  return typeof value === "string" ? value : JSON.stringify(value);
}

const SECONDS = "_seconds";

/** "gavel: objective max min; interval 6 min". */
export function inWords({ name, parameters }: ChosenPlugin): string {
  const given = Object.entries(parameters).map(([parameter, value]) => parameterInWords(parameter, value));
  return given.length > 0 ? `${name}: ${given.join("; ")}` : name;
}

/** Times carry their unit in their name; a switch reads as "with" or "without". */
function parameterInWords(parameter: string, value: unknown): string {
  if (parameter.endsWith(SECONDS) && typeof value === "number") {
    return `${spaced(parameter.slice(0, -SECONDS.length))} ${Number.isInteger(value) ? duration(value) : `${value} s`}`;
  }
  if (typeof value === "boolean") return `${value ? "with" : "without"} ${spaced(parameter)}`;
  return `${spaced(parameter)} ${spaced(inOneLine(value))}`;
}

/** "Half life, seconds": the label of a parameter's field. */
export function parameterLabel(parameter: string): string {
  return words(parameter.endsWith(SECONDS) ? `${parameter.slice(0, -SECONDS.length)}, seconds` : parameter);
}

function spaced(token: string): string {
  return token.replaceAll("_", " ");
}
