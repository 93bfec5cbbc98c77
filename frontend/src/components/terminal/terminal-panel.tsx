import { useMutation } from "@tanstack/react-query";
import { ExternalLink, SquareTerminal } from "lucide-react";
import { useState } from "react";

import { answerOf, api } from "@/api/client";
import type { Job } from "@/api/schema";
import styles from "@/components/terminal/terminal.module.css";
import { Button } from "@/ui/button";
import { EmptyState, Notice, SkeletonLines } from "@/ui/feedback";
import { Select } from "@/ui/field";
import { Panel } from "@/ui/layout";
import { onDemand } from "@/ui/on-demand";
import { useSay } from "@/ui/toasts";

const Terminal = onDemand(async () => (await import("@/components/terminal/terminal")).Terminal, <SkeletonLines />);

/** A shell in the running attempt. Nothing is opened, or written down as an entry, before somebody asks. */
export function TerminalPanel({ job }: { job: Job }) {
  const [rank, setRank] = useState(0);
  const [opened, setOpened] = useState(0);
  const [ended, setEnded] = useState("");
  const runs = job.state === "running";
  if (!runs && opened === 0) {
    return (
      <Panel>
        <EmptyState title="Not running">You can open a shell inside the job while it runs.</EmptyState>
      </Panel>
    );
  }
  const ranks = job.spec.tasks.reduce((sum, task) => sum + (task.replicas ?? 1), 0);
  const isOpen = opened > 0 && !ended;
  return (
    <Panel flush>
      <div className={styles.bar}>
        {ranks > 1 && (
          <Select
            aria-label="Process"
            className={styles.choice}
            value={rank}
            disabled={isOpen}
            onChange={(event) => setRank(Number(event.target.value))}
            options={Array.from({ length: ranks }, (_, each) => ({ value: String(each), label: `rank ${each}` }))}
          />
        )}
        <span>
          {isOpen
            ? "Runs inside the job's sandbox and ends with this attempt."
            : "Opening a shell is recorded in the audit log."}
        </span>
        <Button
          className={styles.end}
          icon={<SquareTerminal size={14} aria-hidden />}
          disabled={!runs && !isOpen}
          onClick={() => {
            setEnded(isOpen ? "You closed it." : "");
            if (!isOpen) setOpened(opened + 1);
          }}
        >
          {isOpen ? "Close" : opened > 0 ? "Open another shell" : "Open a shell"}
        </Button>
      </div>
      {ended && <Notice>{ended}</Notice>}
      {isOpen && <Terminal key={opened} job={job.id} rank={rank} onEnd={setEnded} />}
    </Panel>
  );
}

/** A button for each port that the job names: its pages are seen in a window of their own, at another origin. */
export function OpenPages({ job }: { job: Job }) {
  if (job.state !== "running") return null;
  return (job.spec.ports ?? []).map(({ name }) => <OpenPage key={name} job={job.id} name={name} />);
}

function OpenPage({ job, name }: { job: number; name: string }) {
  const say = useSay();
  const open = useMutation({
    mutationFn: () => {
      // Now, while the click counts: browsers open no window for what comes later.
      const page = window.open("about:blank", "_blank");
      if (page) page.opener = null;
      return answerOf(
        api.POST("/jobs/{job_id}/ports/{port}/open", { params: { path: { job_id: job, port: name } } }),
      ).then(
        ({ url }) => (page ? page.location.replace(url) : location.assign(url)),
        (error: unknown) => {
          page?.close();
          throw error;
        },
      );
    },
    onError: (error) => say("failed", error.message),
  });
  return (
    <Button icon={<ExternalLink size={14} aria-hidden />} busy={open.isPending} onClick={() => open.mutate()}>
      Open {name}
    </Button>
  );
}
