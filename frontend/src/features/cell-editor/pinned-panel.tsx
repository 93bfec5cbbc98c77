import { Plus, Trash2 } from "lucide-react";

import { addPinned, pinnedOf, setPinned } from "@/features/cell-editor/document";
import { NameInput, Slot } from "@/features/cell-editor/slot";
import type { PartProps } from "@/features/cell-editor/types-panel";
import { Button, IconButton } from "@/ui/button";
import { EmptyState } from "@/ui/feedback";
import { Select, TextInput } from "@/ui/field";
import { Panel, TableFrame } from "@/ui/layout";
import styles from "@/features/cell-editor/editor.module.css";

/** Cells that are always the same hardware: for data on a node's disks, or a licence. */
export function PinnedPanel({ document, problems, onChange, clusters }: PartProps & { clusters: readonly string[] }) {
  const pinned = pinnedOf(document);
  const first = clusters[0];
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
      {pinned.length === 0 ? (
        <EmptyState title="No cell is pinned">
          All cells are bound to hardware as jobs need them, around what is bad. A pinned cell is always the same one.
        </EmptyState>
      ) : (
        <TableFrame label="Pinned cells">
          <thead>
            <tr>
              <th>Virtual cluster</th>
              <th>Name</th>
              <th>Address</th>
              <th aria-label="Remove" />
            </tr>
          </thead>
          <tbody>
            {pinned.map((pin, index) => {
              const field = `virtual_clusters.${pin.cluster}.pinned.${pin.name}`;
              const names = pinned.filter((other) => other !== pin && other.cluster === pin.cluster);
              return (
                <tr key={index}>
                  <td className={styles.wide}>
                    <Select
                      aria-label={`Virtual cluster of ${pin.name}`}
                      value={pin.cluster}
                      onChange={(event) => onChange(setPinned(document, pin, { ...pin, cluster: event.target.value }))}
                      options={[...new Set([...clusters, pin.cluster])].map((name) => ({ value: name, label: name }))}
                    />
                  </td>
                  <td className={styles.wide}>
                    <NameInput
                      label="Name of the pinned cell"
                      field={`${field}.name`}
                      problems={problems}
                      value={pin.name}
                      taken={names.map(({ name }) => name)}
                      onRename={(name) => onChange(setPinned(document, pin, { ...pin, name }))}
                    />
                  </td>
                  <td className={styles.widest}>
                    <Slot field={field} problems={problems}>
                      {(attributes) => (
                        <TextInput
                          {...attributes}
                          aria-label={`Address of ${pin.name}`}
                          placeholder="rack-1/node-3"
                          value={pin.address}
                          onChange={(event) =>
                            onChange(setPinned(document, pin, { ...pin, address: event.target.value }))
                          }
                        />
                      )}
                    </Slot>
                  </td>
                  <td className={styles.last}>
                    <IconButton
                      label={`Remove pinned cell ${pin.name}`}
                      icon={<Trash2 size={15} />}
                      onClick={() => onChange(setPinned(document, pin, null))}
                    />
                  </td>
                </tr>
              );
            })}
          </tbody>
        </TableFrame>
      )}
    </Panel>
  );
}
