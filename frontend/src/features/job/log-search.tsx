import { useInfiniteQuery } from "@tanstack/react-query";
import { X } from "lucide-react";
import { useState } from "react";

import { ApiError } from "@/api/client";
import { logSearchQuery } from "@/api/queries";
import type { LogHit } from "@/api/schema";
import { count, visible } from "@/components/format";
import { Button, IconButton } from "@/ui/button";
import { ErrorNotice, SkeletonLines } from "@/ui/feedback";
import styles from "@/features/job/log-view.module.css";

interface LogSearchProps {
  job: number;
  attempt: number;
  wanted: string;
  current: LogHit | null;
  onShow: (hit: LogHit) => void;
  onClose: () => void;
}

/** Lines of all ranks that the server found, also where the page has not loaded them. */
export function LogSearchResults({ job, attempt, wanted, current, onShow, onClose }: LogSearchProps) {
  const [regex, setRegex] = useState(false);
  const [matchCase, setMatchCase] = useState(false);
  const search = useInfiniteQuery(logSearchQuery(job, { attempt, q: wanted, regex, matchCase }));
  const answers = search.data?.pages ?? [];
  const hits = answers.flatMap((answer) => answer.hits);
  const lines = answers.reduce((total, answer) => total + answer.lines_searched, 0);
  return (
    <section className={styles.results} aria-label="Found in all output">
      <div className={styles.bar}>
        <span role="status">
          {search.isPending
            ? "Searching all ranks"
            : `${count(hits.length)} of ${count(lines)} lines${search.hasNextPage ? " so far" : ""} contain “${wanted}”`}
        </span>
        <label className={styles.toggle}>
          <input type="checkbox" checked={regex} onChange={(event) => setRegex(event.target.checked)} />
          Regular expression
        </label>
        <label className={styles.toggle}>
          <input type="checkbox" checked={matchCase} onChange={(event) => setMatchCase(event.target.checked)} />
          Match case
        </label>
        <span className={styles.end}>
          <IconButton label="Close the results" icon={<X size={16} />} onClick={onClose} />
        </span>
      </div>
      {search.error && <ErrorNotice error={explained(search.error)} />}
      {search.isPending && <SkeletonLines count={3} />}
      <ol className={styles.hits}>
        {hits.map((hit) => (
          <li key={`${hit.rank} ${hit.line} ${hit.start}`}>
            <button
              type="button"
              className={styles.hit}
              aria-current={hit === current || undefined}
              onClick={() => onShow(hit)}
            >
              <span className={styles.where}>
                {hit.task} {hit.rank}, line {count(hit.line)}
              </span>
              <code>
                {visible(hit.text.slice(0, hit.start))}
                <mark>{visible(hit.text.slice(hit.start, hit.end))}</mark>
                {visible(hit.text.slice(hit.end))}
              </code>
            </button>
          </li>
        ))}
      </ol>
      {search.hasNextPage && (
        <div className={styles.bar}>
          <Button busy={search.isFetchingNextPage} onClick={() => void search.fetchNextPage()}>
            Search on
          </Button>
        </div>
      )}
    </section>
  );
}

/** What is wrong with the pattern, where that is what the server says. */
function explained(error: Error): Error {
  const problem = error instanceof ApiError ? error.explain("q") : undefined;
  return problem ? new Error(problem) : error;
}
