import { Plus, Trash2 } from "lucide-react";

import { addPinned, pinnedOf, setPinned, type Pinned } from "@/features/cell-editor/document";
import { NameInput, Slot } from "@/features/cell-editor/slot";
import type { PartProps } from "@/features/cell-editor/types-panel";
import { Button, IconButton } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { Select, TextInput } from "@/ui/field";
import { Panel } from "@/ui/layout";
import styles from "@/features/cell-editor/editor.module.css";

/** Cells that are always the same hardware: for data on a node's disks, or a licence. */
export function PinnedPanel({ document, problems, onChange, clusters }: PartProps & { clusters: readonly string[] }) {
  const pinned = pinnedOf(document);
  const first = clusters[0];
  const change = (pin: Pinned, changed: Partial<Pinned>) => onChange(setPinned(document, pin, { ...pin, ...changed }));
  return (
    <Panel
      title="Pinned cells"
      flush
      actions={
        first !== undefined && (
          <Button icon={<Plus size={14} aria-hidden />} onClick={() => onChange(addPinned(document, first))}>
            Pin a cell
          </Button>
        )
      }
    >
      <DataTable
        label="Pinned cells"
        rows={pinned}
        // The place, not the name: a cell that is renamed keeps the focus.
        rowKey={(_, index) => index}
        empty={
          <EmptyState title="No cell is pinned">
            Cells are bound to healthy hardware when jobs need them. A pinned cell always has the same hardware.
          </EmptyState>
        }
        columns={[
          {
            header: "Virtual cluster",
            className: styles.wide,
            cell: (pin) => (
              <Select
                aria-label={`Virtual cluster of ${pin.name}`}
                value={pin.cluster}
                onChange={(event) => change(pin, { cluster: event.target.value })}
                options={[...new Set([...clusters, pin.cluster])].map((name) => ({ value: name, label: name }))}
              />
            ),
          },
          {
            header: "Name",
            className: styles.wide,
            cell: (pin) => (
              <NameInput
                label="Name of the pinned cell"
                field={`${fieldOf(pin)}.name`}
                problems={problems}
                value={pin.name}
                taken={pinned.filter((other) => other !== pin && other.cluster === pin.cluster).map(({ name }) => name)}
                onRename={(name) => change(pin, { name })}
              />
            ),
          },
          {
            header: "Address",
            className: styles.widest,
            cell: (pin) => (
              <Slot field={fieldOf(pin)} problems={problems}>
                {(attributes) => (
                  <TextInput
                    {...attributes}
                    aria-label={`Address of ${pin.name}`}
                    placeholder="rack-1/node-3"
                    value={pin.address}
                    onChange={(event) => change(pin, { address: event.target.value })}
                  />
                )}
              </Slot>
            ),
          },
          {
            header: "Remove",
            isHeaderHidden: true,
            className: styles.last,
            cell: (pin) => (
              <IconButton
                label={`Remove pinned cell ${pin.name}`}
                icon={<Trash2 size={15} />}
                onClick={() => onChange(setPinned(document, pin, null))}
              />
            ),
          },
        ]}
      />
    </Panel>
  );
}

function fieldOf({ cluster, name }: Pinned): string {
  return `virtual_clusters.${cluster}.pinned.${name}`;
}
