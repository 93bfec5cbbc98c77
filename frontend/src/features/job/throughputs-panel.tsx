import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Gauge } from "lucide-react";
import { useEffect } from "react";

import type { Job, JobModelThroughput, JobThroughputs } from "@/api/schema";
import { jobThroughputsQuery } from "@/api/throughput-queries";
import { useCurrency } from "@/components/currency";
import { ago, duration, gpuHours } from "@/components/format";
import { useNow } from "@/components/now";
import { Tag } from "@/components/state-badge";
import { isGuess, jobClassOf, percent, SourceMark, throughputText } from "@/components/throughputs/sources";
import { PartBar } from "@/components/use-bar";
import styles from "@/features/job/job-page.module.css";
import {
  explainsModel,
  modelsWithFacts,
  profileSentence,
  targetSentence,
  throughputSentence,
} from "@/features/job/why-model";
import { DataTable } from "@/ui/data-table";
import { ErrorNotice, Notice, SkeletonLines } from "@/ui/feedback";
import { muted, oneLine, Panel } from "@/ui/layout";

/** Says that a job's throughput is made up, and like what; examples/digits/pacing.py. */
const EMULATED_LABEL = "emulated-speed";
const LOOK_AGAIN_MS = 10_000;

/** How fast the job is on each GPU model, what it shall have of each, and what it had. */
export function ThroughputsPanel({ job }: { job: Job }) {
  const isOver = job.ended_at !== null;
  const query = useQuery({ ...jobThroughputsQuery(job.id), refetchInterval: isOver ? false : LOOK_AGAIN_MS });
  const { refetch } = query;
  const model = job.attempt?.state === "ended" ? "" : (job.attempt?.gpu_model ?? "");
  useEffect(() => void refetch(), [job.state, model, refetch]);
  const now = useNow();
  const throughputs = query.data;
  if (throughputs && !explainsModel(throughputs)) return null;
  return (
    <Panel
      title={isOver ? "Throughput by GPU model" : "Why this GPU model"}
      flush
      actions={
        throughputs && (
          <Link
            to="/throughputs"
            search={{ tenant: throughputs.tenant, application: jobClassOf(throughputs.application).name }}
          >
            All throughputs of {jobClassOf(throughputs.application).name}
          </Link>
        )
      }
    >
      {query.isError && <ErrorNotice error={query.error} onRetry={() => void refetch()} />}
      {query.isPending && <SkeletonLines />}
      {throughputs && (
        <>
          {!isOver && (
            <div className={styles.why}>
              <p>{throughputSentence(throughputs)}</p>
              <p>{profileSentence(throughputs)}</p>
              <p>
                {targetSentence(throughputs)}{" "}
                {throughputs.decided_at && (
                  <span className={muted}>
                    By {throughputs.policy_plugin.name}
                    {throughputs.objective && `, objective ${throughputs.objective.replaceAll("_", " ")}`}, computed{" "}
                    {ago(throughputs.decided_at, now)}.
                  </span>
                )}
              </p>
            </div>
          )}
          {job.labels[EMULATED_LABEL] && (
            <div className={styles.emulated}>
              <Notice icon={<Gauge size={16} aria-hidden />}>
                Emulated throughput: on each GPU model the job slows itself down to the pace of{" "}
                {job.labels[EMULATED_LABEL]}. It does not predict a real GPU.
              </Notice>
            </div>
          )}
          <ThroughputTable throughputs={throughputs} isOver={isOver} />
        </>
      )}
    </Panel>
  );
}

function ThroughputTable({ throughputs, isOver }: { throughputs: JobThroughputs; isOver: boolean }) {
  const currency = useCurrency();
  const models = modelsWithFacts(throughputs);
  if (models.length === 0) return null;
  const isKnown = models.some(({ throughput }) => throughput !== null);
  const hasTargets = !isOver && models.some(({ target_share: share }) => share !== null);
  const hasReceived = !isOver && models.some(({ received_share: share }) => share !== null);
  return (
    <DataTable
      label="Throughput and share by GPU model"
      rows={models}
      rowKey={({ gpu_model: model }) => model}
      rowAttributes={({ accepted }) => ({ className: accepted ? undefined : styles.declined })}
      columns={[
        {
          header: "GPU model",
          isRowHeader: true,
          className: oneLine,
          cell: (model) => (
            <>
              {model.gpu_model} {model.runs_now && <Tag>runs now</Tag>}
              {!model.accepted && <Tag title="Its specification does not name this model">not accepted</Tag>}
            </>
          ),
        },
        isKnown && { header: "Throughput", cell: (model) => <ThroughputCell model={model} /> },
        isKnown && {
          header: "Known from",
          cell: ({ source, samples, confidence }) => (
            <SourceMark source={source} samples={samples} confidence={confidence} />
          ),
        },
        hasTargets && { header: "Target", isNumeric: true, cell: (model) => share(model.target_share) },
        hasReceived && {
          header: "Since the last targets",
          isNumeric: true,
          className: oneLine,
          attributes: ({ received_seconds: seconds }) => ({ title: seconds === null ? undefined : duration(seconds) }),
          cell: (model) => share(model.received_share),
        },
        {
          header: "In all",
          isNumeric: true,
          className: oneLine,
          cell: ({ attained_gpu_seconds: seconds, attained_share: part }) =>
            seconds > 0 ? (
              <>
                {gpuHours(seconds)} <span className={muted}>{share(part)}</span>
              </>
            ) : (
              "–"
            ),
        },
        {
          header: `Price, ${currency ?? "cost units"} per GPU-hour`,
          isNumeric: true,
          cell: (model) => model.price_per_hour.toFixed(2),
        },
      ]}
    />
  );
}

function ThroughputCell({ model }: { model: JobModelThroughput }) {
  const { throughput, relative, source } = model;
  if (throughput === null) return <span className={muted}>not known</span>;
  if (throughput === 0) return <span className={muted}>does not run there</span>;
  return (
    <span className={styles.throughput}>
      <span>
        <span className={oneLine}>
          {isGuess(source) && "≈ "}
          {throughputText(throughput)} samples/s
        </span>
        {relative !== null && <span className={`${muted} ${oneLine}`}>{percent(relative)}</span>}
      </span>
      <PartBar part={relative ?? 0} guess={isGuess(source)} />
    </span>
  );
}

function share(part: number | null): string {
  return part === null ? "–" : percent(part);
}
