/** Which columns the list of jobs has: each person's own choice, kept by the browser. */

import { useState } from "react";

import { useSession } from "@/components/session";
import { COLUMN_NAMES, columnTitle, type ColumnName, USUAL_COLUMNS } from "@/features/jobs/job-table";
import { Button } from "@/ui/button";
import { ResultDialog } from "@/ui/dialog";
import { Checkbox } from "@/ui/field";
import { Stack } from "@/ui/layout";

export function useColumns(): [readonly ColumnName[], (names: readonly ColumnName[]) => void] {
  const key = `allotment-job-columns ${useSession().user.username}`;
  const [names, setNames] = useState(() => stored(key));
  const choose = (chosen: readonly ColumnName[]) => {
    localStorage.setItem(key, chosen.join(","));
    setNames(chosen);
  };
  return [names, choose];
}

/** Names that this version does not know are dropped. */
function stored(key: string): readonly ColumnName[] {
  const text = localStorage.getItem(key);
  if (text === null) return USUAL_COLUMNS;
  const names = text.split(",");
  return COLUMN_NAMES.filter((name) => names.includes(name));
}

interface ColumnChooserProps {
  shown: readonly ColumnName[];
  onChange: (shown: readonly ColumnName[]) => void;
}

export function ColumnChooser({ shown, onChange }: ColumnChooserProps) {
  const [isOpen, setOpen] = useState(false);
  const toggle = (name: ColumnName) =>
    onChange(COLUMN_NAMES.filter((each) => (each === name) !== shown.includes(each)));
  return (
    <>
      <Button look="quiet" onClick={() => setOpen(true)}>
        Columns
      </Button>
      {isOpen && (
        <ResultDialog title="Columns" onClose={() => setOpen(false)}>
          <Stack>
            {COLUMN_NAMES.map((name) => (
              <Checkbox
                key={name}
                label={columnTitle(name)}
                checked={shown.includes(name)}
                onChange={() => toggle(name)}
              />
            ))}
          </Stack>
        </ResultDialog>
      )}
    </>
  );
}
