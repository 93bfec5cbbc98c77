/** What of a thing was before and is after an entry of the audit log. Pure. */

export interface Difference {
  field: string;
  before: string | null;
  after: string | null;
}

/** Field by field, in the order of their names; null where there was none. */
export function differences(before: unknown, after: unknown): Difference[] {
  const [old, now] = [fieldsOf(before), fieldsOf(after)];
  const names = [...new Set([...Object.keys(old), ...Object.keys(now)])].sort();
  return names.map((field) => ({
    field: field.replaceAll("_", " "),
    before: field in old ? shown(old[field]) : null,
    after: field in now ? shown(now[field]) : null,
  }));
}

/** Of old entries some hold a single value. */
function fieldsOf(value: unknown): Readonly<Record<string, unknown>> {
  if (value === null || value === undefined) return {};
  if (typeof value === "object" && !Array.isArray(value)) return value as Record<string, unknown>;
  return { value };
}

function shown(value: unknown): string {
  if (value === null || value === "") return "nothing";
  return typeof value === "string" ? value : JSON.stringify(value);
}
