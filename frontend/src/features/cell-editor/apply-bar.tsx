import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { CircleCheck, CircleX, LoaderCircle, TriangleAlert } from "lucide-react";
import { useState } from "react";

import { cellsQuery } from "@/api/cell-queries";
import { answerOf, api, ApiError } from "@/api/client";
import type { CellDocument } from "@/api/schema";
import { Effects, lapsesOf } from "@/components/cells/effects";
import { sentenceOf } from "@/features/cell-editor/problems";
import type { Check } from "@/features/cell-editor/use-cell-check";
import { Button } from "@/ui/button";
import { Confirm } from "@/ui/dialog";
import { ErrorNotice } from "@/ui/feedback";
import { useSay } from "@/ui/toasts";
import styles from "@/features/cell-editor/editor.module.css";

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
      <div className={styles.bar}>
        <div role="status" className={styles.verdict}>
          <Verdict check={check} syntax={syntax} isChanged={isChanged} />
          {valid && lapses.length > 0 && <Effects effects={lapses} />}
        </div>
        <Button
          look="primary"
          busy={apply.isPending}
          disabled={!valid || !isChanged}
          onClick={() => (lapses.length > 0 ? setAsking(true) : apply.mutate())}
        >
          Apply
        </Button>
      </div>
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

function Verdict({ check, syntax, isChanged }: Pick<ApplyBarProps, "check" | "syntax" | "isChanged">) {
  if (syntax !== null || check.error !== null) {
    return (
      <p className={styles.wrong}>
        <TriangleAlert size={16} aria-hidden />
        <span>{syntax ?? check.error}</span>
      </p>
    );
  }
  if (!check.answer) {
    return (
      <p>
        <LoaderCircle size={16} aria-hidden /> Checking
      </p>
    );
  }
  const { problems } = check.answer;
  const first = problems[0];
  if (first) {
    return (
      <p className={styles.wrong}>
        <CircleX size={16} aria-hidden />
        <span>
          {problems.length > 1 && `${problems.length} problems. `}
          {first.field}: {sentenceOf(first)}
        </span>
      </p>
    );
  }
  const running = check.answer.effects.reduce((sum, effect) => sum + effect.running, 0);
  const none = lapsesOf(check.answer.effects).length === 0;
  return (
    <p className={none ? styles.good : styles.waits}>
      {none ? <CircleCheck size={16} aria-hidden /> : <TriangleAlert size={16} aria-hidden />}
      <span>
        {isChanged ? "It fits the hardware." : "This is in force."} {none && isChanged && keepText(running)}
      </span>
    </p>
  );
}

function keepText(running: number): string {
  if (running === 0) return "No job runs on it.";
  return running === 1 ? "The running job keeps its guarantee." : `All ${running} running jobs keep their guarantee.`;
}
