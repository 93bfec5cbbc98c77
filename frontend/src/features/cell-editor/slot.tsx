import { useId, useState, type ReactNode } from "react";

import type { FieldProblem } from "@/api/schema";
import { problemAt } from "@/features/cell-editor/problems";
import { TextInput } from "@/ui/field";
import { pressed } from "@/ui/keys";
import styles from "@/features/cell-editor/editor.module.css";

export interface SlotAttributes {
  "data-field": string;
  "aria-invalid"?: true;
  "aria-describedby"?: string;
}

interface SlotProps {
  /** As the server calls it. */
  field: string;
  problems: readonly FieldProblem[];
  /** Also shows what is wrong with parts that have no control of their own. */
  withParts?: boolean;
  /** Wrong by itself, before the server was asked. */
  problem?: string | undefined;
  children: (attributes: SlotAttributes) => ReactNode;
}

/** A control in a table, with what is wrong about it below. */
export function Slot({ field, problems, withParts = false, problem, children }: SlotProps) {
  const noteId = useId();
  const wrong = problem ?? problemAt(problems, field, withParts);
  return (
    <>
      {children({
        "data-field": field,
        ...(wrong === undefined ? {} : { "aria-invalid": true, "aria-describedby": noteId }),
      })}
      {wrong !== undefined && (
        <div id={noteId} className={styles.problem}>
          {wrong}
        </div>
      )}
    </>
  );
}

interface NameInputProps {
  label: string;
  field: string;
  problems: readonly FieldProblem[];
  value: string;
  /** Names that are given to others. */
  taken: readonly string[];
  onRename: (name: string) => void;
}

/** A name that other parts refer to: it changes when the typing is over, and never to another's. */
export function NameInput({ label, field, problems, value, taken, onRename }: NameInputProps) {
  const [typed, setTyped] = useState<string | null>(null);
  const name = typed?.trim();
  const problem =
    name === undefined ? undefined : name === "" ? "is missing" : taken.includes(name) ? "is taken already" : undefined;
  const commit = () => {
    if (problem === undefined && name !== undefined && name !== value) onRename(name);
    setTyped(null);
  };
  return (
    <Slot field={field} problems={problems} problem={problem}>
      {(attributes) => (
        <TextInput
          {...attributes}
          aria-label={label}
          value={typed ?? value}
          onChange={(event) => setTyped(event.target.value)}
          onBlur={commit}
          onKeyDown={(event) => pressed("field", event) && commit()}
        />
      )}
    </Slot>
  );
}
