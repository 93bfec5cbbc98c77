import { ArrowDown, ChevronDown, ChevronUp, Clock, Download, Search } from "lucide-react";
import { type KeyboardEvent, useEffect, useMemo, useRef, useState } from "react";

import type { Attempt, Job, LogHit } from "@/api/schema";
import { clockTime, count, dayOf, moment, visible } from "@/components/format";
import { findLines } from "@/features/job/log-buffer";
import { LogSearchResults } from "@/features/job/log-search";
import styles from "@/features/job/log-view.module.css";
import { type LogStart, type LogView, useLog, useMergedLog } from "@/features/job/output-follower";
import { Button, buttonClass, IconButton } from "@/ui/button";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { Select, TextInput } from "@/ui/field";
import { pressed } from "@/ui/keys";
import { Panel } from "@/ui/layout";

const LINE_HEIGHT = 20;
const LINES_BEYOND = 30;
/** Where the browser keeps whether lines have their times. */
const TIMES_KEY = "allotment-log-times";

interface LogPanelProps {
  job: Job;
  attempts: readonly Attempt[];
  /** Which is shown first. */
  rank?: number | undefined;
}

/** The output of one attempt: of one rank, of a task or of all ranks together. All can be chosen. */
export function LogPanel({ job, attempts, rank: shown = 0 }: LogPanelProps) {
  const [chosen, setChosen] = useState<number | null>(null);
  const [which, setWhich] = useState(`rank ${shown}`);
  const [searched, setSearched] = useState("");
  const [hit, setHit] = useState<LogHit | null>(null);
  const [from, setFrom] = useState<LogStart>();
  const newest = attempts.reduce((most, attempt) => Math.max(most, attempt.number), 0);
  const attempt = attempts.find(({ number }) => number === (chosen ?? newest));
  if (!attempt) {
    return (
      <Panel>
        <EmptyState title="No output yet">Lines appear here when the first attempt writes them.</EmptyState>
      </Panel>
    );
  }
  const options = outputOptions(job, attempt);
  const show = (change: () => void) => {
    change();
    setHit(null);
    setFrom(undefined);
  };
  const rank = rankOf(which);
  const lines = {
    hit,
    isPart: from !== undefined,
    onSearchAll: setSearched,
    onMissing: () => hit && setFrom(startOf(hit)),
    onShowAll: () => show(() => undefined),
  };
  const key = `${job.id} ${attempt.id} ${which} ${from?.sequence ?? ""}`;
  return (
    <Panel
      flush
      title="Log"
      actions={
        <>
          {attempts.length > 1 && (
            <Select
              aria-label="Attempt"
              className={styles.choice}
              value={String(attempt.number)}
              onChange={(event) => show(() => setChosen(Number(event.target.value)))}
              options={[...attempts]
                .sort((a, b) => b.number - a.number)
                .map(({ number }) => ({ value: String(number), label: `Attempt ${number}` }))}
            />
          )}
          {options.length > 1 && (
            <Select
              aria-label="Rank"
              className={styles.choice}
              value={which}
              onChange={(event) => show(() => setWhich(event.target.value))}
              options={options}
            />
          )}
          <a
            className={buttonClass("plain")}
            href={downloadAddress(job.id, attempt.number, which)}
            download
            title="The selected output as a file"
          >
            <Download size={14} aria-hidden />
            Download
          </a>
        </>
      }
    >
      {searched && (
        <LogSearchResults
          job={job.id}
          attempt={attempt.number}
          wanted={searched}
          current={hit}
          onShow={(found) => {
            const shown = `rank ${found.rank}`;
            // The log that is open may have the line; else it is not waited for until all of it is loaded.
            if (which !== shown || from) setFrom(startOf(found));
            setWhich(shown);
            setHit(found);
          }}
          onClose={() => setSearched("")}
        />
      )}
      {rank === null ? (
        <MergedLines key={key} job={job.id} attempt={attempt} task={taskOf(which)} {...lines} />
      ) : (
        <RankLines key={key} job={job.id} attempt={attempt} rank={rank} from={from} {...lines} />
      )}
    </Panel>
  );
}

/** Where to read on from to meet the line; undefined where that is the beginning. */
function startOf(hit: LogHit): LogStart | undefined {
  return hit.chunk_line > 1 ? { sequence: hit.sequence, line: hit.chunk_line } : undefined;
}

interface LinesProps {
  /** A line to show, that was found by the server. */
  hit: LogHit | null;
  /** Not the whole output: it begins where a line was found. */
  isPart: boolean;
  onSearchAll: (wanted: string) => void;
  /** The line is not among those that are loaded. */
  onMissing: () => void;
  onShowAll: () => void;
}

interface RankLinesProps extends LinesProps {
  job: number;
  attempt: Attempt;
  rank: number;
  from: LogStart | undefined;
}

function RankLines({ job, attempt, rank, from, ...rest }: RankLinesProps) {
  return <LogLines view={useLog(job, attempt, rank, from)} label={`Output of rank ${rank}`} {...rest} />;
}

function MergedLines({ job, attempt, task, ...rest }: LinesProps & { job: number; attempt: Attempt; task?: string }) {
  const label = task ? `Output of task ${task}` : "Output of all ranks";
  return <LogLines view={useMergedLog(job, attempt, task)} label={label} {...rest} />;
}

function LogLines({
  view: { log, loading, error },
  label,
  hit,
  isPart,
  onSearchAll,
  onMissing,
  onShowAll,
}: LinesProps & { view: LogView; label: string }) {
  const [follow, setFollow] = useState(!hit);
  const [wanted, setWanted] = useState("");
  const [hasTimes, setTimes] = useState(() => localStorage.getItem(TIMES_KEY) === "yes");
  const [at, setAt] = useState(0);
  const frame = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 480 });
  const hitIndex = hit ? hit.line - 1 - log.dropped : -1;
  const hasHit = hitIndex >= 0 && hitIndex < log.lines.length;
  const found = useMemo(() => findLines(log.lines, wanted), [log.lines, wanted]);
  const isFound = useMemo(() => new Set(found), [found]);
  const current = found[Math.min(at, found.length - 1)];

  useEffect(() => {
    const element = frame.current;
    if (element && follow) element.scrollTop = element.scrollHeight;
  }, [log.lines, follow]);

  useEffect(() => {
    if (!hit || (loading && !hasHit)) return;
    // Away from the end, that is: what is written meanwhile is not followed.
    if (hasHit) frame.current?.scrollTo({ top: hitIndex * LINE_HEIGHT - frame.current.clientHeight / 3 });
    else if (!isPart) onMissing();
    // Once for each line that is to be shown.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, [hit, hasHit, loading]);

  const showTimes = (shown: boolean) => {
    localStorage.setItem(TIMES_KEY, shown ? "yes" : "no");
    setTimes(shown);
  };
  const timeOf = timesOf(log.times);
  const scroll = () => {
    const element = frame.current;
    if (!element) return;
    setView({ top: element.scrollTop, height: element.clientHeight });
    // Scrolling up means reading; returning to the end means following again.
    setFollow(element.scrollHeight - element.scrollTop - element.clientHeight < LINE_HEIGHT);
  };
  const show = (index: number) => {
    if (found.length === 0) return;
    const next = (index + found.length) % found.length;
    setAt(next);
    setFollow(false);
    frame.current?.scrollTo({ top: (found[next] ?? 0) * LINE_HEIGHT - view.height / 3 });
  };
  const press = (event: KeyboardEvent) => {
    const key = pressed("log", event);
    if (key === "next") show(at + 1);
    if (key === "previous") show(at - 1);
    if (key === "clear") setWanted("");
  };

  const first = Math.max(0, Math.floor(view.top / LINE_HEIGHT) - LINES_BEYOND);
  const last = Math.min(log.lines.length, Math.ceil((view.top + view.height) / LINE_HEIGHT) + LINES_BEYOND);
  return (
    <>
      <div className={styles.bar}>
        <div className={styles.search}>
          <Search size={14} aria-hidden />
          <TextInput
            type="search"
            aria-label="Search the log"
            placeholder="Search"
            value={wanted}
            onChange={(event) => {
              setWanted(event.target.value);
              setAt(0);
            }}
            onKeyDown={press}
          />
        </div>
        {wanted && (
          <>
            <span role="status">
              {found.length > 0 ? `${Math.min(at, found.length - 1) + 1} of ${count(found.length)}` : "Not found"}
            </span>
            <IconButton
              label="Previous match"
              icon={<ChevronUp size={16} />}
              onClick={() => show(at - 1)}
              disabled={found.length === 0}
            />
            <IconButton
              label="Next match"
              icon={<ChevronDown size={16} />}
              onClick={() => show(at + 1)}
              disabled={found.length === 0}
            />
          </>
        )}
        {wanted && (
          <Button look="quiet" onClick={() => onSearchAll(wanted)}>
            Search all output
          </Button>
        )}
        <span className={styles.end}>
          {count(log.lines.length + log.dropped)} lines
          <Button
            look={hasTimes ? "plain" : "quiet"}
            aria-pressed={hasTimes}
            icon={<Clock size={14} />}
            title="When its node sent each line, by your clock"
            onClick={() => showTimes(!hasTimes)}
          >
            Times
          </Button>
          <Button
            look={follow ? "quiet" : "plain"}
            aria-pressed={follow}
            icon={<ArrowDown size={14} />}
            onClick={() => setFollow(!follow)}
          >
            {follow ? "Following" : "Follow"}
          </Button>
        </span>
      </div>
      {error && <ErrorNotice error={error} />}
      {isPart ? (
        <p className={styles.note}>
          A part of the output, from line {count(log.dropped + 1)} on.{" "}
          <Button look="quiet" onClick={onShowAll}>
            Show the end
          </Button>
        </p>
      ) : (
        log.dropped > 0 && <p className={styles.note}>The first {count(log.dropped)} lines are not shown.</p>
      )}
      {log.truncated && <p className={styles.note}>The attempt wrote more than the limit; the rest was dropped.</p>}
      {loading && log.lines.length === 0 ? (
        <SkeletonLines count={8} />
      ) : log.removed ? (
        <EmptyState title="The output was removed">{log.removed}</EmptyState>
      ) : log.lines.length === 0 ? (
        <EmptyState title={log.complete ? "Nothing was written" : "Nothing written yet"} />
      ) : (
        <div
          ref={frame}
          className={styles.lines}
          onScroll={scroll}
          tabIndex={0}
          role="log"
          aria-live="off"
          aria-label={label}
        >
          <div style={{ height: log.lines.length * LINE_HEIGHT }}>
            <pre style={{ transform: `translateY(${first * LINE_HEIGHT}px)` }}>
              {log.lines.slice(first, last).map((line, index) => (
                <Line
                  key={first + index}
                  number={log.dropped + first + index + 1}
                  time={hasTimes ? timeOf(log.times[first + index]) : undefined}
                  text={visible(line)}
                  wanted={isFound.has(first + index) ? wanted : ""}
                  isCurrent={first + index === current || first + index === hitIndex}
                />
              ))}
            </pre>
          </div>
        </div>
      )}
    </>
  );
}

/** How a line's time is written: with its day where not all are of one. */
function timesOf(times: readonly string[]): (at: string | undefined) => string {
  const [first, last] = [times[0], times.at(-1)];
  const write = first && last && dayOf(first) !== dayOf(last) ? moment : clockTime;
  return (at) => (at ? write(at) : "");
}

interface LineProps {
  number: number;
  time: string | undefined;
  text: string;
  wanted: string;
  isCurrent: boolean;
}

function Line({ number, time, text, wanted, isCurrent }: LineProps) {
  const at = wanted ? text.toLowerCase().indexOf(wanted.toLowerCase()) : -1;
  return (
    <div className={isCurrent ? styles.current : undefined} style={{ height: LINE_HEIGHT }}>
      <span className={styles.number}>{number}</span>
      {time !== undefined && <time className={styles.time}>{time}</time>}
      {at < 0 ? (
        text
      ) : (
        <>
          {text.slice(0, at)}
          <mark>{text.slice(at, at + wanted.length)}</mark>
          {text.slice(at + wanted.length)}
        </>
      )}
    </div>
  );
}

const RANK = "rank ";
const TASK = "task ";

/** What there is to choose; of an elastic job as many ranks as this attempt was granted. */
function outputOptions(job: Job, attempt: Attempt): { value: string; label: string }[] {
  const tasks = job.spec.tasks.flatMap((task) => Array.from({ length: task.replicas ?? 1 }, () => task.name));
  const placed = attempt.placement.flatMap((part) => part.ranks).length;
  const ranks = tasks.slice(0, placed || tasks.length);
  const names = [...new Set(ranks)];
  const options = ranks.map((task, rank) => ({
    value: `${RANK}${rank}`,
    label: names.length > 1 ? `Rank ${rank}, ${task}` : `Rank ${rank}`,
  }));
  if (options.length < 2) return options;
  const wholeTasks = names.length > 1 ? names.map((name) => ({ value: `${TASK}${name}`, label: `Task ${name}` })) : [];
  return [...options, ...wholeTasks, { value: "all", label: "All ranks" }];
}

function rankOf(which: string): number | null {
  return which.startsWith(RANK) ? Number(which.slice(RANK.length)) : null;
}

function taskOf(which: string): string | undefined {
  return which.startsWith(TASK) ? which.slice(TASK.length) : undefined;
}

function downloadAddress(job: number, attempt: number, which: string): string {
  const query = new URLSearchParams({ attempt: String(attempt) });
  const rank = rankOf(which);
  const task = taskOf(which);
  if (rank !== null) query.set("rank", String(rank));
  if (task) query.set("task", task);
  return `/api/v1/jobs/${job}/logs/download?${query.toString()}`;
}
