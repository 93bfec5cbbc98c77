import { Plus, Trash2 } from "lucide-react";

import type { FieldProblem } from "@/api/schema";
import type { CellDraft } from "@/features/cell-editor/document";
import { addType, changeType, removeType, renameType, typesOf } from "@/features/cell-editor/document";
import { NameInput, Slot } from "@/features/cell-editor/slot";
import { Button, IconButton } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { Checkbox, NumberInput, Select } from "@/ui/field";
import { Panel } from "@/ui/layout";
import styles from "@/features/cell-editor/editor.module.css";

export interface PartProps {
  document: CellDraft;
  problems: readonly FieldProblem[];
  onChange: (document: CellDraft) => void;
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
      <DataTable
        label="Cell types"
        rows={types}
        // The place, not the name: a type that is renamed keeps the focus.
        rowKey={(_, index) => index}
        empty={
          <EmptyState title="No cell types">
            Take them from the inventory, or begin with the smallest: a number of GPUs of one model.
          </EmptyState>
        }
        columns={[
          {
            header: "Name",
            className: styles.wide,
            cell: ([name]) => (
              <NameInput
                label="Name of the type"
                field={`types.${name}`}
                problems={problems}
                value={name}
                taken={[...names.filter((other) => other !== name), ...models]}
                onRename={(to) => onChange(renameType(document, name, to))}
              />
            ),
          },
          {
            header: "Consists of",
            className: styles.narrow,
            cell: ([name, type]) => (
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
            ),
          },
          {
            header: "Part type",
            className: styles.wide,
            cell: ([name, type]) => (
              <Slot field={`types.${name}.of`} problems={problems}>
                {(attributes) => (
                  <Select
                    {...attributes}
                    aria-label={`Type of the parts of ${name}`}
                    value={type.of}
                    onChange={(event) => onChange(changeType(document, name, { of: event.target.value }))}
                    options={[...new Set([...names.filter((other) => other !== name), ...models, type.of])].map(
                      (option) => ({ value: option, label: option }),
                    )}
                  />
                )}
              </Slot>
            ),
          },
          {
            header: "One machine",
            cell: ([name, type]) => (
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
            ),
          },
          {
            header: "Remove",
            isHeaderHidden: true,
            className: styles.last,
            cell: ([name]) => (
              <IconButton
                label={`Remove type ${name}`}
                icon={<Trash2 size={15} />}
                onClick={() => onChange(removeType(document, name))}
              />
            ),
          },
        ]}
      />
    </Panel>
  );
}
