import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";

import type { PhysicalEntry } from "@/api/cell-types";
import { addPhysical, changePhysical, removePhysical } from "@/features/cell-editor/document";
import { Slot } from "@/features/cell-editor/slot";
import type { PartProps } from "@/features/cell-editor/types-panel";
import { Button, IconButton } from "@/ui/button";
import { EmptyState } from "@/ui/feedback";
import { Select, TextInput } from "@/ui/field";
import { muted, Panel, TableFrame } from "@/ui/layout";
import styles from "@/features/cell-editor/editor.module.css";

const ROWS_AT_A_TIME = 50;

/** The topmost cells: racks, or nodes by themselves, with the machines in them. */
export function HardwarePanel({ document, problems, onChange }: PartProps) {
  const [shown, setShown] = useState(ROWS_AT_A_TIME);
  const physical = document.physical ?? [];
  const types = Object.keys(document.types ?? {});
  return (
    <Panel
      title="Hardware"
      flush
      actions={
        <Button icon={<Plus size={14} aria-hidden />} onClick={() => onChange(addPhysical(document))}>
          Add a cell
        </Button>
      }
    >
      {physical.length === 0 ? (
        <EmptyState title="No hardware is declared">
          Take it from the inventory: racks, nodes and what their GPUs tell about sockets and switches.
        </EmptyState>
      ) : (
        <TableFrame label="Hardware">
          <thead>
            <tr>
              <th>Name</th>
              <th>Type</th>
              <th>Nodes, in order</th>
              <th aria-label="Remove" />
            </tr>
          </thead>
          <tbody>
            {physical.slice(0, shown).map((entry, index) => (
              <PhysicalRow
                key={index}
                entry={entry}
                field={`physical[${index}]`}
                problems={problems}
                types={types}
                onChange={(changed) => onChange(changePhysical(document, index, changed))}
                onRemove={() => onChange(removePhysical(document, index))}
              />
            ))}
          </tbody>
        </TableFrame>
      )}
      {physical.length > shown && (
        <p className={styles.more}>
          <Button onClick={() => setShown(shown + ROWS_AT_A_TIME)}>Show more</Button>
          <span className={muted}>
            {shown} of {physical.length}. The text has them all.
          </span>
        </p>
      )}
    </Panel>
  );
}

interface RowProps extends Pick<PartProps, "problems"> {
  entry: PhysicalEntry;
  field: string;
  types: readonly string[];
  onChange: (changed: Partial<PhysicalEntry>) => void;
  onRemove: () => void;
}

function PhysicalRow({ entry, field, problems, types, onChange, onRemove }: RowProps) {
  const name = entry.name ?? entry.nodes?.[0] ?? "";
  const reordered = Object.keys(entry.gpus ?? {});
  return (
    <tr>
      <td className={styles.wide}>
        <Slot field={`${field}.name`} problems={problems}>
          {(attributes) => (
            <TextInput
              {...attributes}
              aria-label="Name of the cell"
              value={name}
              onChange={(event) => onChange({ name: event.target.value })}
            />
          )}
        </Slot>
      </td>
      <td className={styles.wide}>
        <Slot field={`${field}.type`} problems={problems}>
          {(attributes) => (
            <Select
              {...attributes}
              aria-label={`Type of ${name}`}
              value={entry.type}
              onChange={(event) => onChange({ type: event.target.value })}
              options={[...new Set([...types, entry.type])].map((type) => ({ value: type, label: type }))}
            />
          )}
        </Slot>
      </td>
      <td className={styles.widest}>
        <Slot field={`${field}.nodes`} problems={problems} withParts>
          {(attributes) => <NodesInput {...attributes} name={name} nodes={entry.nodes ?? []} onChange={onChange} />}
        </Slot>
        <Slot field={`${field}.gpus`} problems={problems} withParts>
          {() =>
            reordered.length > 0 && (
              <p className={styles.note}>
                The GPUs of {reordered.join(", ")} are in an order of their own (see the text).
              </p>
            )
          }
        </Slot>
      </td>
      <td className={styles.last}>
        <IconButton label={`Remove cell ${name}`} icon={<Trash2 size={15} />} onClick={onRemove} />
      </td>
    </tr>
  );
}

interface NodesInputProps {
  name: string;
  nodes: readonly string[];
  onChange: (changed: Partial<PhysicalEntry>) => void;
}

function NodesInput({ name, nodes, onChange, ...attributes }: NodesInputProps) {
  // What was typed: a comma at its end is no node yet.
  const [typed, setTyped] = useState<string | null>(null);
  return (
    <TextInput
      {...attributes}
      aria-label={`Nodes of ${name}`}
      placeholder="Names, separated by commas"
      value={typed ?? nodes.join(", ")}
      onBlur={() => setTyped(null)}
      onChange={(event) => {
        setTyped(event.target.value);
        onChange({ nodes: event.target.value.split(/[\s,]+/).filter(Boolean) });
      }}
    />
  );
}
