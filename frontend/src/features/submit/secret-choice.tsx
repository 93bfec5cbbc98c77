import { useQuery } from "@tanstack/react-query";

import { secretsQuery } from "@/api/secret-queries";
import type { Path } from "@/components/yaml/document";
import { Checkbox } from "@/ui/field";
import { FieldGroup } from "@/ui/form";
import { Row } from "@/ui/layout";

interface SecretChoiceProps {
  /** `secrets` of the specification, unchecked. */
  secrets: unknown;
  tenant: string;
  problemOf: (field: string) => string | undefined;
  onEdit: (path: Path, value: unknown) => void;
}

/** Which secrets the job is given; how each comes is in the YAML. */
export function SecretChoice({ secrets, tenant, problemOf, onEdit }: SecretChoiceProps) {
  const own = useQuery(secretsQuery(null));
  const shared = useQuery({ ...secretsQuery(tenant), enabled: tenant !== "" });
  const uses = asUses(secrets);
  const chosen = chosenNames(uses);
  const mine = (own.data ?? []).map(({ name }) => name);
  const names = [...new Set([...mine, ...(shared.data ?? []).map(({ name }) => name), ...chosen])].sort();
  if (names.length === 0) return null;
  const problem = uses.map((_, index) => problemOf(`secrets.${index}.name`) ?? problemOf(`secrets.${index}.env`));
  const toggle = (name: string, isOn: boolean) => {
    const next = isOn ? [...uses, asVariable(name)] : uses.filter((use) => !chosenNames([use]).includes(name));
    onEdit(["secrets"], next.length > 0 ? next : undefined);
  };
  return (
    <FieldGroup legend="Secrets" problem={problem.find(Boolean) ?? problemOf("secrets")}>
      <Row>
        {names.map((name) => (
          <Checkbox
            key={name}
            label={mine.includes(name) ? `${name} (your own)` : name}
            checked={chosen.includes(name)}
            onChange={(event) => toggle(name, event.target.checked)}
          />
        ))}
      </Row>
    </FieldGroup>
  );
}

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
