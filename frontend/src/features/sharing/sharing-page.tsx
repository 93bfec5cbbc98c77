import { infiniteQueryOptions, useInfiniteQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";

import { answerOf, api, cursorOf } from "@/api/client";
import type { GpuSharer, SharedGpu } from "@/api/schema";
import { bytes } from "@/components/format";
import styles from "@/features/sharing/sharing.module.css";
import { DataTable, type Column } from "@/ui/data-table";
import { EmptyState } from "@/ui/feedback";
import { muted, oneLine, PageLayout, Panel } from "@/ui/layout";

const REFETCH_MS = 15_000;

/** Who has which part of which GPU, how that is held, and what it costs each. */
export function SharingPage() {
  const query = useInfiniteQuery(sharedGpusQuery);
  const rows = query.data?.pages.flatMap((page) => page.results).flatMap(rowsOfGpu);
  return (
    <PageLayout title="Sharing" lead="GPUs that several jobs share: by parts, or by a policy.">
      <Panel flush>
        <DataTable
          label="Shared GPUs"
          rows={rows}
          rowKey={({ gpu, place }) => `${gpu.id} ${place}`}
          rowAttributes={({ place }) => ({ className: place > 0 ? styles.further : undefined })}
          query={query}
          skeletonLines={6}
          columns={COLUMNS}
          empty={
            <EmptyState title="No GPU is shared now">
              A job can request a part of a GPU: 0.3 instead of 1, and a limit for what it may use when the rest is
              free.
            </EmptyState>
          }
          more="Show more GPUs"
        />
      </Panel>
      <p className={muted}>
        Slowdown: run time relative to whole GPUs alone, where measured. Other tenants' jobs are not named.
      </p>
    </PageLayout>
  );
}

/** A job that has a GPU, by its place among those. */
interface SharerRow {
  gpu: SharedGpu;
  job: GpuSharer;
  place: number;
}

function rowsOfGpu(gpu: SharedGpu): SharerRow[] {
  return gpu.jobs.map((job, place) => ({ gpu, job, place }));
}

const COLUMNS: readonly Column<SharerRow>[] = [
  {
    header: "GPU",
    isRowHeader: true,
    cell: ({ gpu, place }) => (
      <span className={place > 0 ? "visually-hidden" : styles.gpu}>
        <Link to="/nodes/$name" params={{ name: gpu.node }} tabIndex={place > 0 ? -1 : undefined}>
          {gpu.node}
        </Link>{" "}
        GPU {gpu.index}
        <br />
        <span className={muted}>{gpu.gpu_model}</span>
      </span>
    ),
  },
  { header: "In use", className: oneLine, cell: ({ gpu, place }) => place === 0 && <InUse gpu={gpu} /> },
  {
    header: "Job",
    cell: ({ job, place }) => (
      <span className={styles.job}>
        <Swatch job={job} place={place} />
        <span>
          {job.id === null ? (
            <span className={muted}>of another tenant</span>
          ) : (
            <>
              <Link to="/jobs/$id" params={{ id: String(job.id) }}>
                {job.name}
              </Link>{" "}
              <span className={muted}>#{job.id}</span>
              <br />
              <span className={muted}>
                {job.tenant} in {job.virtual_cluster}
              </span>
            </>
          )}
        </span>
      </span>
    ),
  },
  {
    header: "Part",
    headerTitle: "The guaranteed part, and the limit",
    isNumeric: true,
    className: oneLine,
    cell: ({ job }) => (
      <>
        {job.request}
        {job.limit > job.request && (
          <>
            <br />
            <span className={muted}>up to {job.limit}</span>
          </>
        )}
      </>
    ),
  },
  {
    header: "Memory",
    headerTitle: "What it holds on the device, whether it uses it or not",
    isNumeric: true,
    className: oneLine,
    cell: ({ job }) => (job.memory_bytes > 0 ? bytes(job.memory_bytes) : "–"),
  },
  {
    header: "Used",
    headerTitle: "What its processes occupied on the device a moment ago",
    isNumeric: true,
    className: oneLine,
    cell: ({ job }) => <Used job={job} />,
  },
  { header: "Held", cell: ({ job }) => <span title={heldTitle(job)}>{heldText(job)}</span> },
  { header: "Slowdown", isNumeric: true, className: oneLine, cell: ({ job }) => <Slowdown job={job} /> },
];

/** What is in use, as a bar in the colours of those who have it, and in figures. */
function InUse({ gpu }: { gpu: SharedGpu }) {
  return (
    <span className={styles.use}>
      <span className={styles.bar} aria-hidden>
        {gpu.jobs.map((job, place) => (
          <span
            key={place}
            style={{
              width: `${100 * (job.way === "part" ? job.request : 1 / gpu.jobs.length)}%`,
              background: cropOf(job, place),
            }}
          />
        ))}
      </span>
      {Math.round(100 * gpu.in_use)} %
    </span>
  );
}

function Swatch({ job, place }: { job: GpuSharer; place: number }) {
  return <span className={styles.swatch} style={{ background: cropOf(job, place) }} aria-hidden />;
}

const CROPS_SHOWN = 8;

function cropOf(job: GpuSharer, place: number): string {
  return job.id === null ? "var(--crop-none)" : `var(--crop-${(place % CROPS_SHOWN) + 1})`;
}

function heldText({ way, enforcement }: GpuSharer): string {
  if (way !== "part") return way === "turns" ? "in turns" : "together";
  return { enforced: "enforced", cooperative: "cooperative", placement_only: "placement only", "": "not reported yet" }[
    enforcement
  ];
}

function heldTitle({ way, enforcement }: GpuSharer): string {
  if (way === "turns") return "Each job has the whole GPU in its turn, and is frozen in the turns of others.";
  if (way === "together") return "A policy lets them run on the whole GPU at the same time, without fixed parts.";
  return {
    enforced: "The node enforces the job's part.",
    cooperative: "The job itself requests its GPU time before each step.",
    placement_only: "The part is only used for placement; the node does not enforce it.",
    "": "The node has not said yet how it holds the job.",
  }[enforcement];
}

function Slowdown({ job }: { job: GpuSharer }) {
  if (job.slowdown !== null) return <>{job.slowdown.toFixed(2)}×</>;
  return <span className={muted}>{job.id === null ? "–" : "not measured"}</span>;
}

function Used({ job }: { job: GpuSharer }) {
  if (job.memory_used_bytes !== null) return <>{bytes(job.memory_used_bytes)}</>;
  return <span className={muted}>{job.id === null ? "–" : "not measured"}</span>;
}

const sharedGpusQuery = infiniteQueryOptions({
  queryKey: ["shared-gpus"],
  queryFn: ({ signal, pageParam }) =>
    answerOf(api.GET("/shared-gpus", { params: { query: { cursor: pageParam } }, signal })),
  initialPageParam: "",
  getNextPageParam: (page) => cursorOf(page.next),
  refetchInterval: REFETCH_MS,
});
