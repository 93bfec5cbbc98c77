/** The secrets that a specification names, as its YAML has them. Pure. */

type Use = string | Record<string, unknown>;

export function asUses(secrets: unknown): Use[] {
  if (!Array.isArray(secrets)) return [];
  return secrets.filter((use): use is Use => typeof use === "string" || (typeof use === "object" && use !== null));
}

export function chosenNames(uses: readonly Use[]): string[] {
  return uses.map((use) => (typeof use === "string" ? use : use.name)).filter((name) => typeof name === "string");
}

/** A secret as a variable: of its own name where that is one, else of one that is made from it. */
export function asVariable(name: string): Use {
  if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)) return name;
  const variable = name.toUpperCase().replace(/[^A-Z0-9]+/g, "_");
  return { name, env: /^[0-9]/.test(variable) ? `_${variable}` : variable };
}
