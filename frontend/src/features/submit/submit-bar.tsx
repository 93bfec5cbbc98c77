import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { CircleCheck, CircleX, Clock, LoaderCircle, TriangleAlert } from "lucide-react";
import { useRef } from "react";

import { answerOf, api, newIdempotencyKey, once } from "@/api/client";
import type { JobSubmitRequest } from "@/api/schema";
import { counted } from "@/components/format";
import type { Check } from "@/features/submit/use-check";
import type { LineProblem } from "@/components/yaml/editor";
import { live } from "@/live/live";
import { Button } from "@/ui/button";
import { useSay } from "@/ui/toasts";
import styles from "@/features/submit/submit-page.module.css";

interface SubmitBarProps {
  spec: Record<string, unknown> | null;
  tenant: string;
  check: Check;
  problems: readonly LineProblem[];
  onSubmitted: () => void;
}

/** What would become of the job, and the button that submits it. */
export function SubmitBar({ spec, tenant, check, problems, onSubmitted }: SubmitBarProps) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const say = useSay();
  const body = spec ? JSON.stringify({ ...spec, tenant }) : "";
  // One key for one specification: a second click, or a retry after a lost answer, submits nothing twice.
  const key = useRef({ body: "", value: "" });
  const submit = useMutation({
    mutationFn: () => {
      if (key.current.body !== body) key.current = { body, value: newIdempotencyKey() };
      return answerOf(
        api.POST("/jobs", { params: { header: once(key.current.value) }, body: JSON.parse(body) as JobSubmitRequest }),
      );
    },
    onSuccess: async (job) => {
      key.current = { body: "", value: "" };
      live.apply({ type: "fetched", kind: "job", objects: [job], since: live.current().clock });
      queries.setQueryData(["job", job.id], job);
      say("done", `Submitted ${job.name} as job ${job.id}.`);
      onSubmitted();
      await navigate({ to: "/jobs/$id", params: { id: String(job.id) } });
    },
    onError: (error) => say("failed", error.message),
  });
  return (
    <div className={styles.bar}>
      <div role="status" className={styles.verdict}>
        <Verdict check={check} problems={problems} />
      </div>
      <Button
        look="primary"
        busy={submit.isPending}
        disabled={!spec || problems.length > 0}
        onClick={() => submit.mutate()}
      >
        Submit
      </Button>
    </div>
  );
}

function Verdict({ check, problems }: Pick<SubmitBarProps, "check" | "problems">) {
  const { answer, error } = check;
  const first = problems[0];
  if (first) {
    return (
      <p className={styles.wrong}>
        <CircleX size={16} aria-hidden />
        <span>
          {problems.length > 1 && `${problems.length} problems. `}Line {first.line}: {first.message}
        </span>
      </p>
    );
  }
  if (error) {
    return (
      <p className={styles.wrong}>
        <TriangleAlert size={16} aria-hidden />
        <span>{error}</span>
      </p>
    );
  }
  if (!answer) {
    return (
      <p>
        <LoaderCircle size={16} aria-hidden /> Checking
      </p>
    );
  }
  const startsNow = answer.message.startsWith("Would start");
  return (
    <>
      <p className={startsNow ? styles.good : styles.waits}>
        {startsNow ? <CircleCheck size={16} aria-hidden /> : <Clock size={16} aria-hidden />}
        <span>
          {counted(answer.gpus, "GPU")}. {answer.message}
        </span>
      </p>
      {answer.warnings.map((warning) => (
        <p key={warning} className={styles.waits}>
          <TriangleAlert size={16} aria-hidden />
          <span>{warning}</span>
        </p>
      ))}
    </>
  );
}
