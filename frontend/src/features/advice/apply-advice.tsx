import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { Link, useNavigate } from "@tanstack/react-router";
import { useState } from "react";

import { cellsQuery } from "@/api/cell-queries";
import type { WholeAdvice } from "@/api/schema";
import { answerOf, api } from "@/api/client";
import { Effects, lapsesOf } from "@/components/cells/effects";
import { moment } from "@/components/format";
import { Tag } from "@/components/state-badge";
import { Button, buttonClass } from "@/ui/button";
import { Confirm } from "@/ui/dialog";
import { ErrorNotice } from "@/ui/feedback";
import { useSay } from "@/ui/toasts";

/** Puts the advised cells in force, after telling which running jobs would lose their guarantee. */
export function ApplyAdvice({ advice }: { advice: WholeAdvice }) {
  const [asking, setAsking] = useState(false);
  const navigate = useNavigate();
  const queries = useQueryClient();
  const say = useSay();
  const check = useQuery({
    queryKey: ["cells", "check", "advice", advice.id],
    queryFn: ({ signal }) =>
      answerOf(api.POST("/cells/check", { body: { specification: advice.specification ?? {} }, signal })),
    enabled: asking,
    staleTime: 0,
  });
  const apply = useMutation({
    mutationFn: () =>
      answerOf(api.POST("/cells/advice/{advice_id}/apply", { params: { path: { advice_id: advice.id } } })),
    onSuccess: async (cells) => {
      queries.setQueryData(cellsQuery.queryKey, cells);
      for (const key of ["cells", "virtual-clusters", "advice"]) void queries.invalidateQueries({ queryKey: [key] });
      say("done", `The advised cells are in force as version ${cells.version}.`);
      await navigate({ to: "/cells" });
    },
  });
  const lapses = lapsesOf(check.data?.effects);
  return (
    <>
      {advice.applied_at && <Tag>applied {moment(advice.applied_at)}</Tag>}
      {advice.specification && (
        <Link to="/cells/edit" search={{ advice: advice.id }} className={buttonClass()}>
          Edit first
        </Link>
      )}
      <Button look="primary" disabled={!advice.specification} onClick={() => setAsking(true)}>
        Apply
      </Button>
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title="Apply the advised cells?"
        description="Every virtual cluster gets the cells in the column “advised”. No job is stopped by this."
        action="Apply"
        busy={apply.isPending || check.isPending}
        onConfirm={() => apply.mutate()}
      >
        {check.data && lapses.length === 0 && <p>No running job would lose its guarantee.</p>}
        {lapses.length > 0 && <Effects effects={lapses} />}
        {apply.error && <ErrorNotice error={apply.error} />}
      </Confirm>
    </>
  );
}
