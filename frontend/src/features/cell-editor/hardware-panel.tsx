import { Plus, Trash2 } from "lucide-react";
import { useState } from "react";

import type { DraftPhysical } from "@/features/cell-editor/document";
import { addPhysical, changePhysical, removePhysical } from "@/features/cell-editor/document";
import { Slot } from "@/features/cell-editor/slot";
import type { PartProps } from "@/features/cell-editor/types-panel";
import { Button, IconButton } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { Select, TextInput } from "@/ui/field";
import { muted, Panel } from "@/ui/layout";
import styles from "@/features/cell-editor/editor.module.css";

const ROWS_AT_A_TIME = 50;

/** The topmost cells: racks, or nodes by themselves, with the machines in them. */
export function HardwarePanel({ document, problems, onChange }: PartProps) {
  const [shown, setShown] = useState(ROWS_AT_A_TIME);
  const physical = document.physical ?? [];
  const types = Object.keys(document.types ?? {});
  const change = (index: number, changed: Partial<DraftPhysical>) => onChange(changePhysical(document, index, changed));
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
      <DataTable
        label="Hardware"
        rows={physical}
        // The place, not the name: a cell that is renamed keeps the focus.
        rowKey={(_, index) => index}
        limit={shown}
        empty={
          <EmptyState title="No hardware is declared">
            Take it from the inventory: racks, nodes, sockets and switches.
          </EmptyState>
        }
        columns={[
          {
            header: "Name",
            className: styles.wide,
            cell: (entry, index) => (
              <Slot field={`physical[${index}].name`} problems={problems}>
                {(attributes) => (
                  <TextInput
                    {...attributes}
                    aria-label="Name of the cell"
                    value={nameOf(entry)}
                    onChange={(event) => change(index, { name: event.target.value })}
                  />
                )}
              </Slot>
            ),
          },
          {
            header: "Type",
            className: styles.wide,
            cell: (entry, index) => (
              <Slot field={`physical[${index}].type`} problems={problems}>
                {(attributes) => (
                  <Select
                    {...attributes}
                    aria-label={`Type of ${nameOf(entry)}`}
                    value={entry.type}
                    onChange={(event) => change(index, { type: event.target.value })}
                    options={[...new Set([...types, entry.type])].map((type) => ({ value: type, label: type }))}
                  />
                )}
              </Slot>
            ),
          },
          {
            header: "Nodes, in order",
            className: styles.widest,
            cell: (entry, index) => (
              <Nodes
                entry={entry}
                field={`physical[${index}]`}
                problems={problems}
                onChange={(changed) => change(index, changed)}
              />
            ),
          },
          {
            header: "Remove",
            isHeaderHidden: true,
            className: styles.last,
            cell: (entry, index) => (
              <IconButton
                label={`Remove cell ${nameOf(entry)}`}
                icon={<Trash2 size={15} />}
                onClick={() => onChange(removePhysical(document, index))}
              />
            ),
          },
        ]}
      />
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

interface NodesProps extends Pick<PartProps, "problems"> {
  entry: DraftPhysical;
  field: string;
  onChange: (changed: Partial<DraftPhysical>) => void;
}

function Nodes({ entry, field, problems, onChange }: NodesProps) {
  const reordered = Object.keys(entry.gpus ?? {});
  return (
    <>
      <Slot field={`${field}.nodes`} problems={problems} withParts>
        {(attributes) => (
          <NodesInput {...attributes} name={nameOf(entry)} nodes={entry.nodes ?? []} onChange={onChange} />
        )}
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
    </>
  );
}

function nameOf(entry: DraftPhysical): string {
  return entry.name ?? entry.nodes?.[0] ?? "";
}

interface NodesInputProps {
  name: string;
  nodes: readonly string[];
  onChange: (changed: Partial<DraftPhysical>) => void;
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
