import { asObject, type Path } from "@/components/yaml/document";
import { Checkbox, Field, Select } from "@/ui/field";
import { FieldGroup } from "@/ui/form";
import { Row } from "@/ui/layout";

const TOLD = [
  { word: "start", says: "it starts" },
  { word: "end", says: "it ends" },
  { word: "failure", says: "it fails or seems stuck" },
  { word: "preemption", says: "it is preempted" },
] as const;
const WHOSE = [
  { value: "account", label: "As in my account" },
  { value: "job", label: "As chosen here" },
];

interface NotifyChoiceProps {
  /** `notify` of the specification, unchecked. */
  notify: unknown;
  problemOf: (field: string) => string | undefined;
  onEdit: (path: Path, value: unknown) => void;
}

/** Of what the job's owner gets e-mail. */
export function NotifyChoice({ notify, problemOf, onEdit }: NotifyChoiceProps) {
  const { email } = asObject(notify);
  const chosen = Array.isArray(email) ? email.map(String) : null;
  const choose = (words: readonly string[]) => onEdit(["notify", "email"], words);
  return (
    <>
      <Field label="E-mail" hint={chosen?.length === 0 ? "No e-mail" : undefined} problem={problemOf("notify")}>
        {(attributes) => (
          <Select
            {...attributes}
            value={chosen ? "job" : "account"}
            options={WHOSE}
            onChange={(event) => (event.target.value === "job" ? choose(["end"]) : onEdit(["notify"], undefined))}
          />
        )}
      </Field>
      {chosen && (
        <FieldGroup legend="Mail me when" problem={problemOf("notify.email")}>
          <Row>
            {TOLD.map(({ word, says }) => (
              <Checkbox
                key={word}
                label={says}
                checked={chosen.includes(word)}
                onChange={(event) =>
                  choose(event.target.checked ? [...chosen, word] : chosen.filter((each) => each !== word))
                }
              />
            ))}
          </Row>
        </FieldGroup>
      )}
    </>
  );
}
