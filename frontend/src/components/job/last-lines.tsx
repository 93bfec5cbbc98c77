import { useQuery } from "@tanstack/react-query";

import { lastLinesQuery } from "@/api/failure-queries";
import { visible } from "@/components/format";
import styles from "@/components/job/last-lines.module.css";
import { ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { muted } from "@/ui/layout";

// Colours, titles and moves of a terminal.
const ESCAPES = /\u001b(\[[0-?]*[ -/]*[@-~]|\][^\u0007\u001b\n]*(\u0007|\u001b\\))/g;
const LINES = 15;
const LOOK_AGAIN_MS = 10_000;

interface LastLinesProps {
  job: number;
  /** The attempt's number. */
  attempt: number;
  rank: number;
  /** Whether more may be written: then they are asked for again now and then. */
  isRunning?: boolean;
}

/** What one rank of an attempt wrote last. */
export function LastLines({ job, attempt, rank, isRunning = false }: LastLinesProps) {
  const { data, error, isPending } = useQuery({
    ...lastLinesQuery(job, attempt, rank, LINES),
    refetchInterval: isRunning ? LOOK_AGAIN_MS : false,
  });
  if (isPending) return <SkeletonLines count={4} />;
  if (error) return <ErrorNotice error={error} />;
  if (data.removed) return <p className={muted}>{data.removed.message}</p>;
  if (data.isEmpty) return <p className={muted}>{`Rank ${rank} ${isRunning ? "has written" : "wrote"} no output.`}</p>;
  return (
    <pre className={styles.lines} tabIndex={0} aria-label={`Last lines of rank ${rank}`}>
      {visible(data.lines.join("\n").replace(ESCAPES, ""))}
    </pre>
  );
}
