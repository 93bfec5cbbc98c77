import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Download, Upload } from "lucide-react";
import { useState } from "react";

import { gpuModelsQuery, tenantsQuery } from "@/api/queries";
import { exportAddress, throughputsQuery } from "@/api/throughput-queries";
import { Filter, TypedSearch } from "@/components/filter";
import { useSession } from "@/components/session";
import { InterferencePanel } from "@/features/throughputs/interference-panel";
import { PricesPanel } from "@/features/throughputs/prices-panel";
import { type Chosen, modelsOf } from "@/features/throughputs/rows";
import { ThroughputTable } from "@/features/throughputs/throughput-table";
import { Button, buttonClass } from "@/ui/button";
import { Segments } from "@/ui/choice";
import { Dialog, DialogActions } from "@/ui/dialog";
import { EmptyState } from "@/ui/feedback";
import { Field, Select } from "@/ui/field";
import { muted, PageLayout, Panel, Row, Stack } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";

const ImportDialog = onDemand(async () => (await import("@/features/throughputs/import-dialog")).ImportDialog);
const ThroughputDialog = onDemand(
  async () => (await import("@/features/throughputs/throughput-dialog")).ThroughputDialog,
);

const route = getRouteApi("/throughputs");
const PARTNERS = [
  { value: "false", label: "Alone" },
  { value: "true", label: "Sharing GPUs" },
] as const;

/** What is known of how fast each job class is on each GPU model; people who may correct it. */
export function ThroughputsPage() {
  const me = useSession();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useInfiniteQuery(throughputsQuery(search));
  const models = useQuery(gpuModelsQuery);
  const tenants = useQuery(tenantsQuery);
  const [chosen, setChosen] = useState<Chosen | null>(null);
  const [dialog, setDialog] = useState<"export" | "import" | null>(null);
  const rows = query.data?.pages.flatMap((page) => page.results) ?? [];
  const names = tenants.data?.map(({ name }) => name) ?? [];
  const mine = me.is_operator ? names : me.tenants.filter(({ role }) => role === "admin").map(({ name }) => name);
  const choose = (changed: Partial<typeof search>) =>
    void navigate({ search: (now) => ({ ...now, ...changed }), replace: true });
  const isFiltered = Boolean(search.application || search.tenant || search.gpu_model);
  return (
    <PageLayout
      title="Throughputs"
      lead="How fast each class of jobs runs on each GPU model, and the source of each figure. Throughput-aware policies use these figures."
      actions={
        <>
          {names.length > 0 && (
            <Button icon={<Download size={15} aria-hidden />} onClick={() => setDialog("export")}>
              Export
            </Button>
          )}
          {mine.length > 0 && (
            <Button icon={<Upload size={15} aria-hidden />} onClick={() => setDialog("import")}>
              Import
            </Button>
          )}
        </>
      }
    >
      <Row>
        <TypedSearch
          label="Search by application"
          value={search.application ?? ""}
          onChange={(application) => choose({ application })}
        />
        <Filter label="Tenant" value={search.tenant} options={names} onChange={(tenant) => choose({ tenant })} />
        <Filter
          label="GPU model"
          value={search.gpu_model}
          options={(models.data ?? []).map(({ name }) => name)}
          onChange={(gpu_model) => choose({ gpu_model })}
        />
        <Segments
          label="Alone or sharing GPUs"
          value={search.partners === "true" ? "true" : "false"}
          options={PARTNERS}
          onChange={(partners) => choose({ partners: partners === "true" ? partners : undefined })}
        />
      </Row>
      <Panel flush>
        <ThroughputTable
          rows={rows}
          models={modelsOf(rows)}
          onChoose={setChosen}
          query={query}
          empty={
            search.partners === "true" ? (
              <EmptyState title="No jobs shared GPUs yet">
                When two jobs share GPUs, their relative throughputs are measured and shown here.
              </EmptyState>
            ) : (
              <EmptyState
                title={isFiltered ? "No job class matches" : "No throughputs yet"}
                action={isFiltered && <Button onClick={() => void navigate({ search: {} })}>Clear the filters</Button>}
              >
                {!isFiltered && (
                  <>
                    Throughputs are measured from the progress that jobs report, and taken from <code>throughput</code>{" "}
                    in their specifications.
                  </>
                )}
              </EmptyState>
            )
          }
        />
      </Panel>
      <p className={muted}>
        In samples per second of the whole gang. Bars are relative to the fastest model of their row; striped ones, in
        italics, are estimates or assumptions.
      </p>
      <PricesPanel />
      {me.is_operator && search.partners === "true" && <InterferencePanel />}
      {chosen && <ThroughputDialog key={chosen.gpu_model} chosen={chosen} onClose={() => setChosen(null)} />}
      {dialog === "export" && <ExportDialog tenants={names} chosen={search.tenant} onClose={() => setDialog(null)} />}
      {dialog === "import" && <ImportDialog tenants={mine} chosen={search.tenant} onClose={() => setDialog(null)} />}
    </PageLayout>
  );
}

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

function ExportDialog({ tenants, chosen, onClose }: ExportDialogProps) {
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
