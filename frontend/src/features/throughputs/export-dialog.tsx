import { Download } from "lucide-react";
import { useState } from "react";

import { exportAddress } from "@/api/throughput-queries";
import { buttonClass } from "@/ui/button";
import { Segments } from "@/ui/choice";
import { Dialog, DialogActions } from "@/ui/dialog";
import { Field, Select } from "@/ui/field";
import { muted, Stack } from "@/ui/layout";

type Layout = "csv" | "gavel";
const LAYOUTS = [
  { value: "csv", label: "CSV" },
  { value: "gavel", label: "Gavel's JSON" },
] as const;

interface ExportDialogProps {
  tenants: readonly string[];
  chosen: string | undefined;
  onClose: () => void;
}

export function ExportDialog({ tenants, chosen, onClose }: ExportDialogProps) {
  const [tenant, setTenant] = useState(chosen || (tenants[0] ?? ""));
  const [layout, setLayout] = useState<Layout>("csv");
  return (
    <Dialog open onClose={onClose} title="Export throughputs">
      <Stack>
        <Field label="Tenant">
          {(attributes) => (
            <Select
              {...attributes}
              value={tenant}
              options={tenants.map((name) => ({ value: name, label: name }))}
              onChange={(event) => setTenant(event.target.value)}
            />
          )}
        </Field>
        <Segments<Layout> label="Layout" value={layout} options={LAYOUTS} onChange={setLayout} />
        <p className={muted}>
          {layout === "csv"
            ? "One line for each throughput, with its source; Import takes it back."
            : "The layout of Gavel's throughput tables, for its simulator and ours."}
        </p>
        <DialogActions>
          <a className={buttonClass("primary")} href={exportAddress(tenant, layout)} download onClick={onClose}>
            <Download size={15} aria-hidden />
            Download
          </a>
        </DialogActions>
      </Stack>
    </Dialog>
  );
}
