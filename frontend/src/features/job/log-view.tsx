import { ArrowDown, ChevronDown, ChevronUp, Search } from "lucide-react";
import { useEffect, useMemo, useRef, useState, type KeyboardEvent } from "react";

import type { Attempt, Job } from "@/api/types";
import { count } from "@/components/format";
import { findLines } from "@/features/job/log-buffer";
import { useLog } from "@/features/job/log-follower";
import { Button, IconButton } from "@/ui/button";
import { EmptyState, ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { Select, TextInput } from "@/ui/field";
import { Panel } from "@/ui/layout";
import styles from "@/features/job/log-view.module.css";

const LINE_HEIGHT = 20;
const LINES_BEYOND = 30;

/** The output of one rank of one attempt; both can be chosen. */
export function LogPanel({ job, attempts }: { job: Job; attempts: readonly Attempt[] }) {
  const [chosen, setChosen] = useState<number | null>(null);
  const [rank, setRank] = useState(0);
  const newest = attempts.reduce((most, attempt) => Math.max(most, attempt.number), 0);
  const attempt = attempts.find(({ number }) => number === (chosen ?? newest));
  if (!attempt) {
    return (
      <Panel>
        <EmptyState title="No output yet">Its lines appear here as soon as the first attempt writes them.</EmptyState>
      </Panel>
    );
  }
  const ranks = (job.spec.tasks ?? []).reduce((total, task) => total + task.replicas, 0);
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
              onChange={(event) => setChosen(Number(event.target.value))}
              options={[...attempts]
                .sort((a, b) => b.number - a.number)
                .map(({ number }) => ({ value: String(number), label: `Attempt ${number}` }))}
            />
          )}
          {ranks > 1 && (
            <Select
              aria-label="Rank"
              className={styles.choice}
              value={String(rank)}
              onChange={(event) => setRank(Number(event.target.value))}
              options={Array.from({ length: ranks }, (_, each) => ({ value: String(each), label: `Rank ${each}` }))}
            />
          )}
        </>
      }
    >
      <LogLines key={`${job.id} ${attempt.id} ${rank}`} job={job.id} attempt={attempt} rank={rank} />
    </Panel>
  );
}

function LogLines({ job, attempt, rank }: { job: number; attempt: Attempt; rank: number }) {
  const { log, loading, error } = useLog(job, attempt, rank);
  const [follow, setFollow] = useState(true);
  const [wanted, setWanted] = useState("");
  const [at, setAt] = useState(0);
  const frame = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 480 });
  const found = useMemo(() => findLines(log.lines, wanted), [log.lines, wanted]);
  const isFound = useMemo(() => new Set(found), [found]);
  const current = found[Math.min(at, found.length - 1)];

  useEffect(() => {
    const element = frame.current;
    if (element && follow) element.scrollTop = element.scrollHeight;
  }, [log.lines, follow]);

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
    if (event.key === "Enter") show(event.shiftKey ? at - 1 : at + 1);
    if (event.key === "Escape") setWanted("");
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
        <span className={styles.end}>
          {count(log.lines.length + log.dropped)} lines
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
      {log.dropped > 0 && <p className={styles.note}>The first {count(log.dropped)} lines are not shown.</p>}
      {log.truncated && <p className={styles.note}>The attempt wrote more than is kept; the rest was cut.</p>}
      {loading && log.lines.length === 0 ? (
        <SkeletonLines count={8} />
      ) : log.lines.length === 0 ? (
        <EmptyState title={log.complete ? "This rank wrote nothing" : "Nothing written yet"} />
      ) : (
        <div
          ref={frame}
          className={styles.lines}
          onScroll={scroll}
          tabIndex={0}
          role="log"
          aria-live="off"
          aria-label={`Output of rank ${rank}`}
        >
          <div style={{ height: log.lines.length * LINE_HEIGHT }}>
            <pre style={{ transform: `translateY(${first * LINE_HEIGHT}px)` }}>
              {log.lines.slice(first, last).map((line, index) => (
                <Line
                  key={first + index}
                  number={log.dropped + first + index + 1}
                  text={line}
                  wanted={isFound.has(first + index) ? wanted : ""}
                  isCurrent={first + index === current}
                />
              ))}
            </pre>
          </div>
        </div>
      )}
    </>
  );
}

interface LineProps {
  number: number;
  text: string;
  wanted: string;
  isCurrent: boolean;
}

function Line({ number, text, wanted, isCurrent }: LineProps) {
  const at = wanted ? text.toLowerCase().indexOf(wanted.toLowerCase()) : -1;
  return (
    <div className={isCurrent ? styles.current : undefined} style={{ height: LINE_HEIGHT }}>
      <span className={styles.number}>{number}</span>
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
