import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { cellsQuery } from "@/api/cell-queries";
import { answerOf, api, ApiError } from "@/api/client";
import type { CellDocument } from "@/api/schema";
import { Effects, lapsesOf } from "@/components/cells/effects";
import { type Check, sentenceOf } from "@/features/cell-editor/problems";
import { Button } from "@/ui/button";
import { Confirm } from "@/ui/confirm";
import { ErrorNotice } from "@/ui/feedback";
import { useSay } from "@/ui/toasts";
import { Verdict, VerdictBar } from "@/ui/verdict";

interface ApplyBarProps {
  specification: unknown;
  /** The version that the draft was made from. */
  version: number;
  check: Check;
  /** What keeps the text from being read. */
  syntax: string | null;
  isChanged: boolean;
  onConflict: () => void;
}

/** What the draft would come to, and the button that puts it in force. */
export function ApplyBar({ specification, version, check, syntax, isChanged, onConflict }: ApplyBarProps) {
  const navigate = useNavigate();
  const queries = useQueryClient();
  const say = useSay();
  const [asking, setAsking] = useState(false);
  const lapses = lapsesOf(check.answer?.effects);
  const apply = useMutation({
    mutationFn: () =>
      answerOf(
        api.PUT("/cells", {
          // Whatever was written; the server says what is wrong with it.
          body: { specification: specification as CellDocument, version },
        }),
      ),
    onSuccess: async (cells) => {
      queries.setQueryData(cellsQuery.queryKey, cells);
      for (const key of ["cells", "virtual-clusters"]) void queries.invalidateQueries({ queryKey: [key] });
      say("done", `The cells of version ${cells.version} are in force.`);
      await navigate({ to: "/cells" });
    },
    onError: (error) => {
      if (error instanceof ApiError && error.status === 409) onConflict();
    },
    onSettled: () => setAsking(false),
  });
  const valid = syntax === null && check.answer?.valid === true;
  return (
    <>
      {apply.error && <ErrorNotice error={apply.error} />}
      <VerdictBar
        verdict={
          <>
            <Outlook check={check} syntax={syntax} isChanged={isChanged} />
            {valid && lapses.length > 0 && <Effects effects={lapses} />}
          </>
        }
      >
        <Button
          look="primary"
          busy={apply.isPending}
          disabled={!valid || !isChanged}
          onClick={() => (lapses.length > 0 ? setAsking(true) : apply.mutate())}
        >
          Apply
        </Button>
      </VerdictBar>
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title="Apply these cells?"
        description="No job is stopped by this, but some lose their guarantee:"
        action="Apply"
        busy={apply.isPending}
        onConfirm={() => apply.mutate()}
      >
        <Effects effects={lapses} />
      </Confirm>
    </>
  );
}

function Outlook({ check, syntax, isChanged }: Pick<ApplyBarProps, "check" | "syntax" | "isChanged">) {
  const problem = syntax ?? check.error;
  if (problem !== null) return <Verdict kind="failed">{problem}</Verdict>;
  if (!check.answer) return <Verdict kind="pending">Checking</Verdict>;
  const { problems, effects } = check.answer;
  const first = problems[0];
  if (first) {
    return (
      <Verdict kind="wrong">
        {problems.length > 1 && `${problems.length} problems. `}
        {first.field}: {sentenceOf(first)}
      </Verdict>
    );
  }
  const running = effects.reduce((sum, effect) => sum + effect.running, 0);
  const none = lapsesOf(effects).length === 0;
  return (
    <Verdict kind={none ? "good" : "warning"}>
      {isChanged ? "The cells fit the hardware." : "These cells are in force."} {none && isChanged && keepText(running)}
    </Verdict>
  );
}

function keepText(running: number): string {
  if (running === 0) return "No job runs on it.";
  return running === 1 ? "The running job keeps its guarantee." : `All ${running} running jobs keep their guarantee.`;
}
