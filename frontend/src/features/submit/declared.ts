/** The fields of a job specification as the server declares them: a JSON Schema, written by `make schema`. Pure. */

import schema from "@/features/submit/job-spec.schema.json";

/** What of a JSON Schema a form needs. */
export interface FieldSchema {
  title?: string;
  description?: string;
  type?: string | readonly string[];
  enum?: readonly (string | null)[];
  anyOf?: readonly FieldSchema[];
  items?: FieldSchema;
  minimum?: number;
  maximum?: number;
  default?: unknown;
  examples?: readonly unknown[];
  properties?: Readonly<Record<string, FieldSchema>>;
  $ref?: string;
}

/** A field that one control edits. */
export interface DeclaredField {
  /** Where it stands in the specification: "nodes.only". */
  where: string;
  label: string;
  hint: string;
  kind: "text" | "number" | "choice" | "words";
  choices: readonly string[];
  minimum: number | undefined;
  maximum: number | undefined;
  isWhole: boolean;
  /** What stands for nothing: its default, or an example. */
  placeholder: string;
}

/** Every field with a label, in the order of the specification; those of tasks are not among them. */
export const DECLARED: readonly DeclaredField[] = labelled(schema as unknown as FieldSchema, []);

function labelled(object: FieldSchema, outer: readonly string[]): DeclaredField[] {
  return Object.entries(object.properties ?? {}).flatMap(([name, field]) => {
    const path = [...outer, name];
    if (field.title !== undefined) return [declared(field, field.title, path)];
    const inner = objectOf(field);
    return inner ? labelled(inner, path) : [];
  });
}

/** The object that a field holds; undefined for lists of objects, and for what is no object. */
function objectOf(field: FieldSchema): FieldSchema | undefined {
  const reference = [field, ...(field.anyOf ?? [])].find((each) => each.$ref)?.$ref;
  const definitions = schema.$defs as unknown as Readonly<Record<string, FieldSchema>>;
  return reference === undefined ? undefined : definitions[reference.replace("#/$defs/", "")];
}

function declared(field: FieldSchema, label: string, path: readonly string[]): DeclaredField {
  const types = [field, ...(field.anyOf ?? [])].flatMap(({ type }) => type ?? []);
  const choices = (field.enum ?? []).filter((word) => word !== null);
  const isNumber = !types.includes("string") && (types.includes("integer") || types.includes("number"));
  return {
    where: path.join("."),
    label,
    hint: field.description ?? "",
    kind: choices.length > 0 ? "choice" : types.includes("array") ? "words" : isNumber ? "number" : "text",
    choices,
    minimum: field.minimum,
    maximum: field.maximum,
    isWhole: types.includes("integer"),
    placeholder: shown(field.default) || shown(field.examples?.[0]),
  };
}

function shown(value: unknown): string {
  return typeof value === "string" || typeof value === "number" ? String(value) : "";
}

/** The value at a place of the specification, undefined where nothing is. */
export function valueAt(spec: unknown, where: string): unknown {
  return where
    .split(".")
    .reduce<unknown>(
      (value, name) =>
        value !== null && typeof value === "object" ? (value as Record<string, unknown>)[name] : undefined,
      spec,
    );
}

/** What to remove so that nothing is left of a value: the value, or what would be empty without it. */
export function placeToRemove(spec: unknown, where: string): string[] {
  const path = where.split(".");
  while (path.length > 1) {
    const outer = valueAt(spec, path.slice(0, -1).join("."));
    if (outer !== null && typeof outer === "object" && Object.keys(outer).length > 1) break;
    path.pop();
  }
  return path;
}
