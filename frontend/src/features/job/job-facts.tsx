import { useQuery } from "@tanstack/react-query";

import { answerOf, api } from "@/api/client";
import type { Attempt, Job, JobRunTime } from "@/api/schema";
import { bytes, count, counted, duration, moment, visible } from "@/components/format";
import { useNow } from "@/components/now";

/** How often a job was preempted, and what that cost it. */
export function Preemptions({ job }: { job: Job }) {
  const { data } = useQuery({
    queryKey: ["job-preemptions", job.id, job.preemptions, job.attempt?.running_at],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/jobs/{job_id}/preemptions", { params: { path: { job_id: job.id } }, signal })),
    enabled: job.preemptions > 0,
  });
  if (!data) return <>{job.preemptions}</>;
  return (
    <>
      {counted(data.times, "time")}; {duration(data.lost_seconds)} of work lost, {duration(data.overhead_seconds)} to
      stop and start
      {data.may_borrow_at && `; borrows GPUs again from ${moment(data.may_borrow_at)}`}
    </>
  );
}

type Code = NonNullable<Job["code"]>;

/** What the job's working folders begin with, and a download of what was uploaded. */
export function CodeLine({ job, code }: { job: number; code: Code }) {
  return (
    <>
      {codeText(code)}
      {code.archive && !code.is_removed && (
        <>
          {"; "}
          <a href={`/api/v1/jobs/${job}/code`} download>
            download
          </a>
        </>
      )}
    </>
  );
}

const DIGEST_SHOWN = "sha256:".length + 12;
const COMMIT_SHOWN = 12;

/** Where a job's code comes from: an archive by digest, size and files, or a commit of a repository. */
export function codeText(code: Code): string {
  if (code.git) return `commit ${(code.commit ?? "").slice(0, COMMIT_SHOWN)} of ${visible(code.git)}`;
  const size = `${counted(code.files ?? 0, "file")}, ${bytes(code.bytes ?? 0)}`;
  const removed = code.is_removed ? "; removed, since no job needed it" : "";
  return `${(code.archive ?? "").slice(0, DIGEST_SHOWN)}, ${size}${removed}`;
}

/** How an attempt is held to its part of a GPU. */
export function enforcementWords(enforcement: Attempt["enforcement"]): string {
  return {
    "": "",
    enforced: "enforced",
    cooperative: "cooperative: it requests its time itself",
    placement_only: "placement only: not enforced on its node",
  }[enforcement];
}

/** What CPUs and memory an attempt has that its job leaves to the platform; ranks with the same in one line. */
export function auxiliaryLines({ replicas, message }: NonNullable<Attempt["auxiliary"]>): string[] {
  const lines = new Map<string, number[]>();
  for (const each of replicas) {
    const has = [
      each.cpus && `${count(each.cpus)} CPUs${beside(each.cpus, each.proportional_cpus, count)}`,
      each.memory_bytes && bytes(each.memory_bytes) + beside(each.memory_bytes, each.proportional_memory_bytes, bytes),
    ].filter(Boolean);
    const text = has.join(", ") || "as much as there is";
    lines.set(text, [...(lines.get(text) ?? []), each.rank]);
  }
  const said = [...lines].map(
    ([text, ranks]) => `${ranks.length === 1 ? "rank" : "ranks"} ${ranks.join(", ")}: ${text}`,
  );
  return message ? [...said, message] : said;
}

function beside(has: number, fair: number, written: (amount: number) => string): string {
  if (written(has) === written(fair)) return "";
  const more = written(Math.abs(has - fair));
  return ` (${written(fair)} by its GPUs, ${more} ${has > fair ? "more" : "less"})`;
}

/** What a job reads from the storage of its nodes. */
export function dataSetText({ name, size, bandwidth }: NonNullable<Job["spec"]["data"]>): string {
  return `${visible(name)}, ${bytes(size)}${bandwidth ? `, ${bytes(bandwidth)}/s for each replica` : ""}`;
}

/** Whether it is the turn of an attempt that shares its GPUs in turns, and when that changes. */
export function TurnLine({ turn }: { turn: Turn }) {
  const { isOn, leftSeconds } = turnAt(turn, useNow() / 1000);
  const left = duration(Math.ceil(leftSeconds));
  return isOn ? <>its turn, for another {left}</> : <>frozen, its next turn in {left}</>;
}

type Turn = NonNullable<Attempt["turn"]>;

/** Whether it is this turn at an instant (Unix seconds), and in how many seconds it ends, or begins. */
export function turnAt({ index, count, seconds }: Turn, now: number): { isOn: boolean; leftSeconds: number } {
  const slice = Math.floor(now / seconds);
  const slicesUntil = (((index - slice) % count) + count) % count;
  const isOn = slicesUntil === 0;
  return { isOn, leftSeconds: (slice + (isOn ? 1 : slicesUntil)) * seconds - now };
}

const REFETCH_MS = 60_000;

/** How long the job runs in all by its own steps, beside what was declared. */
export function RunTime({ job }: { job: Job }) {
  const { data } = useQuery({
    queryKey: ["job-run-time", job.id, job.version],
    queryFn: ({ signal }) =>
      answerOf(api.GET("/jobs/{job_id}/run-time", { params: { path: { job_id: job.id } }, signal })),
    refetchInterval: job.state === "running" ? REFETCH_MS : false,
  });
  return <>{data ? runTimeText(data) : ""}</>;
}

/** The run time in all; what was declared is told only where it is something else. */
export function runTimeText(known: JobRunTime): string {
  const { declared_seconds: declared, measured_seconds: measured } = known;
  if (measured === null) {
    const stated = declared === null ? "not known" : `declared ${duration(declared)}; too few steps yet to measure`;
    return `${stated}${usualText(known)}`;
  }
  const before = declared !== null && known.differs ? `declared ${duration(declared)}, ` : "";
  const where = known.gpu_model ? ` on ${known.gpu_model}` : "";
  const after = known.outlasts_limit ? "; longer than its time limit" : "";
  return `${before}estimated ${duration(measured)}${where} from its steps${after}${usualText(known)}`;
}

const ALIKE = {
  size: "of the same application and size",
  application: "of the same application",
  user: "of its user",
  "": "",
};

/** How long jobs like it ran, and how far off such estimates were. */
function usualText(known: JobRunTime): string {
  if (known.usual_seconds === null) {
    return "";
  }
  const off = known.usual_error === null ? "" : `, off by ${Math.round(100 * known.usual_error)} %`;
  const jobs = known.usual_jobs === 1 ? "1 job" : `${known.usual_jobs} jobs`;
  return `; usual ${duration(known.usual_seconds)} (${jobs} ${ALIKE[known.usual_by]}${off})`;
}
