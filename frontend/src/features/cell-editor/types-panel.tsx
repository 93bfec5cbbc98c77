import { Plus, Trash2 } from "lucide-react";

import type { CellDocument } from "@/api/cell-types";
import type { FieldProblem } from "@/api/types";
import { addType, changeType, removeType, renameType, typesOf } from "@/features/cell-editor/document";
import { NameInput, Slot } from "@/features/cell-editor/slot";
import { Button, IconButton } from "@/ui/button";
import { EmptyState } from "@/ui/feedback";
import { Checkbox, NumberInput, Select } from "@/ui/field";
import { Panel, TableFrame } from "@/ui/layout";
import styles from "@/features/cell-editor/editor.module.css";

export interface PartProps {
  document: CellDocument;
  problems: readonly FieldProblem[];
  onChange: (document: CellDocument) => void;
}

/** What kinds of cells there are: each so many of the next smaller kind, down to the GPU's model. */
export function TypesPanel({ document, problems, onChange, models }: PartProps & { models: readonly string[] }) {
  const types = typesOf(document);
  const names = types.map(([name]) => name);
  return (
    <Panel
      title="Cell types"
      flush
      actions={
        <Button icon={<Plus size={14} aria-hidden />} onClick={() => onChange(addType(document, models[0] ?? ""))}>
          Add a type
        </Button>
      }
    >
      {types.length === 0 ? (
        <EmptyState title="No cell types">
          Take them from the inventory, or begin with the smallest: so many GPUs of a model.
        </EmptyState>
      ) : (
        <TableFrame label="Cell types">
          <thead>
            <tr>
              <th>Name</th>
              <th>Consists of</th>
              <th>Of the kind</th>
              <th>One machine</th>
              <th aria-label="Remove" />
            </tr>
          </thead>
          <tbody>
            {types.map(([name, type], index) => (
              // The place, not the name: a type that is renamed keeps the focus.
              <tr key={index}>
                <td className={styles.wide}>
                  <NameInput
                    label="Name of the type"
                    field={`types.${name}`}
                    problems={problems}
                    value={name}
                    taken={[...names.filter((other) => other !== name), ...models]}
                    onRename={(to) => onChange(renameType(document, name, to))}
                  />
                </td>
                <td className={styles.narrow}>
                  <Slot field={`types.${name}.count`} problems={problems}>
                    {(attributes) => (
                      <NumberInput
                        {...attributes}
                        aria-label={`Number of parts of ${name}`}
                        min={1}
                        value={type.count}
                        onChange={(count) => onChange(changeType(document, name, { count }))}
                      />
                    )}
                  </Slot>
                </td>
                <td className={styles.wide}>
                  <Slot field={`types.${name}.of`} problems={problems}>
                    {(attributes) => (
                      <Select
                        {...attributes}
                        aria-label={`Kind of the parts of ${name}`}
                        value={type.of}
                        onChange={(event) => onChange(changeType(document, name, { of: event.target.value }))}
                        options={[...new Set([...names.filter((other) => other !== name), ...models, type.of])].map(
                          (option) => ({ value: option, label: option }),
                        )}
                      />
                    )}
                  </Slot>
                </td>
                <td>
                  <Slot field={`types.${name}.node`} problems={problems}>
                    {(attributes) => (
                      <Checkbox
                        {...attributes}
                        label={`${name} is one machine`}
                        bare
                        checked={type.node === true}
                        onChange={(event) => onChange(changeType(document, name, { node: event.target.checked }))}
                      />
                    )}
                  </Slot>
                </td>
                <td className={styles.last}>
                  <IconButton
                    label={`Remove type ${name}`}
                    icon={<Trash2 size={15} />}
                    onClick={() => onChange(removeType(document, name))}
                  />
                </td>
              </tr>
            ))}
          </tbody>
        </TableFrame>
      )}
    </Panel>
  );
}
