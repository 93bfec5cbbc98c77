import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { getRouteApi } from "@tanstack/react-router";
import { Download, Upload } from "lucide-react";
import { useState } from "react";

import { gpuModelsQuery, tenantsQuery } from "@/api/queries";
import { speedsQuery } from "@/api/speed-queries";
import { TypedSearch } from "@/components/typed-search";
import { useSession } from "@/components/session";
import { ExportDialog } from "@/features/speeds/export-dialog";
import { ImportDialog } from "@/features/speeds/import-dialog";
import { SpeedDialog } from "@/features/speeds/speed-dialog";
import { SpeedTable } from "@/features/speeds/speed-table";
import { modelsOf, type Chosen } from "@/features/speeds/rows";
import { Button } from "@/ui/button";
import { Segments } from "@/ui/choice";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { Select } from "@/ui/field";
import { muted, PageLayout, Panel, Row } from "@/ui/layout";
import styles from "@/features/speeds/speeds-page.module.css";

const route = getRouteApi("/speeds");
const PARTNERS = [
  { value: "false", label: "Alone" },
  { value: "true", label: "Sharing GPUs" },
] as const;

/** What is known of how fast each kind of job is on each GPU model; people who may correct it. */
export function SpeedsPage() {
  const me = useSession();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const query = useInfiniteQuery(speedsQuery(search));
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
      title="Speeds"
      lead="How fast each kind of job runs on each GPU model, and from where that is known. Policies that look at speeds decide by it."
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
        <Select
          aria-label="Tenant"
          className={styles.choice}
          value={search.tenant ?? ""}
          options={[{ value: "", label: "Tenant: any" }, ...names.map((name) => ({ value: name, label: name }))]}
          onChange={(event) => choose({ tenant: event.target.value })}
        />
        <Select
          aria-label="GPU model"
          className={styles.choice}
          value={search.gpu_model ?? ""}
          options={[
            { value: "", label: "GPU model: any" },
            ...(models.data ?? []).map(({ name }) => ({ value: name, label: name })),
          ]}
          onChange={(event) => choose({ gpu_model: event.target.value })}
        />
        <Segments
          label="Alone or sharing GPUs"
          value={search.partners === "true" ? "true" : "false"}
          options={PARTNERS}
          onChange={(partners) => choose({ partners: partners === "true" ? partners : undefined })}
        />
      </Row>
      <Panel flush>
        {query.isError && <ErrorNotice error={query.error} onRetry={() => void query.refetch()} />}
        {query.isPending ? (
          <SkeletonLines count={8} />
        ) : rows.length > 0 ? (
          <SpeedTable rows={rows} models={modelsOf(rows)} onChoose={setChosen} />
        ) : search.partners === "true" ? (
          <EmptyState title="No jobs shared GPUs yet">
            When two jobs share GPUs, what is left of each one&apos;s speed is measured and shown here.
          </EmptyState>
        ) : (
          <EmptyState
            title={isFiltered ? "No kind of job matches" : "No speeds yet"}
            action={isFiltered && <Button onClick={() => void navigate({ search: {} })}>Clear the filters</Button>}
          >
            {!isFiltered && (
              <>
                Speeds are measured from the progress that jobs report, and taken from <code>throughput</code> in their
                specifications.
              </>
            )}
          </EmptyState>
        )}
        {query.hasNextPage && (
          <div className={styles.more}>
            <Button busy={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
              Show more
            </Button>
          </div>
        )}
      </Panel>
      <p className={muted}>
        In samples per second of the whole gang. Bars are relative to the fastest model of their row; striped ones, in
        italics, are estimates or assumptions.
      </p>
      {chosen && <SpeedDialog key={chosen.gpu_model} chosen={chosen} onClose={() => setChosen(null)} />}
      {dialog === "export" && <ExportDialog tenants={names} chosen={search.tenant} onClose={() => setDialog(null)} />}
      {dialog === "import" && <ImportDialog tenants={mine} chosen={search.tenant} onClose={() => setDialog(null)} />}
    </PageLayout>
  );
}
