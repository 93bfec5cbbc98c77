import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useState, type ChangeEvent } from "react";

import { ApiError } from "@/api/client";
import { importThroughputs } from "@/api/throughput-queries";
import type { ThroughputImport } from "@/api/schema";
import { jobClassOf } from "@/components/throughputs/sources";
import { importSentence, valueText } from "@/features/throughputs/rows";
import { Button } from "@/ui/button";
import { DataTable } from "@/ui/data-table";
import { Dialog, DialogActions } from "@/ui/dialog";
import { ErrorNotice, Notice } from "@/ui/feedback";
import { Field, Select } from "@/ui/field";
import { muted, Stack } from "@/ui/layout";
import { useSay } from "@/ui/toasts";
import styles from "@/features/throughputs/throughputs-page.module.css";

interface ImportDialogProps {
  tenants: readonly string[];
  chosen: string | undefined;
  onClose: () => void;
}

/** A file is tried first: what it would change is seen before it does. */
export function ImportDialog({ tenants, chosen, onClose }: ImportDialogProps) {
  const say = useSay();
  const queries = useQueryClient();
  const [tenant, setTenant] = useState(chosen && tenants.includes(chosen) ? chosen : (tenants[0] ?? ""));
  const [file, setFile] = useState<string | null>(null);
  const check = useMutation({
    mutationFn: (tried: { tenant: string; content: string }) => importThroughputs({ ...tried, dry_run: true }),
  });
  const apply = useMutation({
    mutationFn: (tried: { tenant: string; content: string }) => importThroughputs({ ...tried, dry_run: false }),
    onSuccess: (result) => {
      void queries.invalidateQueries({ queryKey: ["throughputs"] });
      say("done", importSentence(result));
      onClose();
    },
  });
  const tryOut = (nextTenant: string, content: string | null) => {
    apply.reset();
    if (content !== null) check.mutate({ tenant: nextTenant, content });
  };
  const read = async (event: ChangeEvent<HTMLInputElement>) => {
    const picked = event.target.files?.[0];
    if (!picked) return;
    const content = await picked.text();
    setFile(content);
    tryOut(tenant, content);
  };
  const error = apply.error ?? check.error;
  const result = check.data;
  return (
    <Dialog
      open
      onClose={onClose}
      title="Import throughputs"
      description="A CSV file as Export writes it, or Gavel's JSON. Imported values count as your corrections."
    >
      <Stack>
        <Field label="For tenant">
          {(attributes) => (
            <Select
              {...attributes}
              value={tenant}
              options={tenants.map((name) => ({ value: name, label: name }))}
              onChange={(event) => {
                setTenant(event.target.value);
                tryOut(event.target.value, file);
              }}
            />
          )}
        </Field>
        <Field label="File">
          {(attributes) => (
            <input
              {...attributes}
              type="file"
              className={styles.file}
              // The same file again, once it is mended, is a new choice.
              onClick={(event) => (event.currentTarget.value = "")}
              accept=".csv,.json,text/csv,application/json"
              onChange={(event) => void read(event)}
            />
          )}
        </Field>
        {check.isPending && <p role="status">Reading the file …</p>}
        {error && <Problems error={error} />}
        {result && !error && <WhatWouldChange result={result} />}
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button
            look="primary"
            disabled={file === null || !result || check.isError || result.added + result.changed === 0}
            busy={apply.isPending}
            onClick={() => file !== null && apply.mutate({ tenant, content: file })}
          >
            Import
          </Button>
        </DialogActions>
      </Stack>
    </Dialog>
  );
}

/** Every wrong line; nothing was imported. */
function Problems({ error }: { error: Error }) {
  const fields = error instanceof ApiError ? error.fields : [];
  return (
    <>
      <ErrorNotice error={error} />
      {fields.length > 0 && (
        <ul className={styles.problems} aria-label="Wrong lines">
          {fields.map(({ field, problem, expected }, place) => (
            <li key={place}>
              <strong>{field}</strong> {problem}
              {expected && <>; expected {expected}</>}
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function WhatWouldChange({ result }: { result: ThroughputImport }) {
  const shown = result.changes;
  const all = result.added + result.changed;
  return (
    <>
      <p role="status">{importSentence(result)}</p>
      {result.unknown_models.length > 0 && (
        <Notice>No node of this cluster has {result.unknown_models.join(", ")}: kept until the cluster has one.</Notice>
      )}
      {result.renamed.length > 0 && (
        <p className={muted}>
          Names are changed to valid application names: {result.renamed[0]?.from} to {result.renamed[0]?.to}
          {result.renamed.length > 1 && `, and ${result.renamed.length - 1} more`}.
        </p>
      )}
      {shown.length > 0 && (
        <div className={styles.changes}>
          <DataTable
            label="What would change"
            rows={shown}
            rowKey={(_, place) => place}
            columns={[
              {
                header: "Job class",
                cell: ({ application, partner }) => (
                  <>
                    {jobClassOf(application).name}
                    {partner && <span className={muted}> beside {jobClassOf(partner).name}</span>}
                  </>
                ),
              },
              {
                header: "GPUs",
                cell: ({ gpus, gpu_model: model, spread }) => (
                  <>
                    {gpus} × {model}
                    {spread && <span className={muted}> spread</span>}
                  </>
                ),
              },
              {
                header: "Now",
                isNumeric: true,
                cell: (change) => (change.before === null ? "–" : valueText(change, change.before)),
              },
              { header: "Then", isNumeric: true, cell: (change) => valueText(change, change.after) },
            ]}
          />
        </div>
      )}
      {all > shown.length && (
        <p className={muted}>
          The first {shown.length} of {all} are shown.
        </p>
      )}
    </>
  );
}
