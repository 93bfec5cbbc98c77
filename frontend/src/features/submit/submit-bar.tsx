import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useRef } from "react";

import { answerOf, api, ApiError, newIdempotencyKey, once } from "@/api/client";
import type { CheckAnswer, FieldProblem, JobSubmitRequest } from "@/api/schema";
import { gpusText } from "@/components/gpu-amount";
import { useTypedCheck } from "@/components/typing";
import type { LineProblem } from "@/components/yaml/editor";
import { live } from "@/live/live";
import { Button } from "@/ui/button";
import { useSay } from "@/ui/toasts";
import { Verdict, VerdictBar } from "@/ui/verdict";

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
    <VerdictBar verdict={<Outlook check={check} problems={problems} />}>
      <Button
        look="primary"
        busy={submit.isPending}
        disabled={!spec || problems.length > 0}
        onClick={() => submit.mutate()}
      >
        Submit
      </Button>
    </VerdictBar>
  );
}

function Outlook({ check: { answer, error }, problems }: Pick<SubmitBarProps, "check" | "problems">) {
  const first = problems[0];
  if (first) {
    return (
      <Verdict kind="wrong">
        {problems.length > 1 && `${problems.length} problems. `}Line {first.line}: {first.message}
      </Verdict>
    );
  }
  if (error) return <Verdict kind="failed">{error}</Verdict>;
  if (!answer) return <Verdict kind="pending">Checking</Verdict>;
  return (
    <>
      <Verdict kind={answer.message.startsWith("Would start") ? "good" : "waits"}>
        {gpusText(answer.gpus, answer.normalised?.tasks ?? [])}. {answer.message}
      </Verdict>
      {answer.warnings.map((warning) => (
        <Verdict key={warning} kind="warning">
          {warning}
        </Verdict>
      ))}
    </>
  );
}

const NO_PROBLEMS: FieldProblem[] = [];

interface Check {
  /** The answer for exactly what stands in the form now; null while it is awaited. */
  answer: CheckAnswer | null;
  fields: readonly FieldProblem[];
  /** The server could not be asked, or refused as a whole. */
  error: string | null;
}

export function useCheck(spec: Record<string, unknown> | null, tenant: string): Check {
  const document = spec && tenant !== "" ? { ...spec, tenant } : null;
  const { answer, newest, error } = useTypedCheck(["check"], document, (body, signal) =>
    answerOf(api.POST("/jobs/check", { body: body as unknown as JobSubmitRequest, signal })),
  );
  const refusal = error instanceof ApiError ? error : null;
  return { answer, fields: refusal?.fields ?? newest?.fields ?? NO_PROBLEMS, error: error?.message ?? null };
}
