import { useMutation } from "@tanstack/react-query";

import { answerOf, api, once } from "@/api/client";
import type { Job } from "@/api/schema";
import { mayActFor } from "@/components/roles";
import { useSession } from "@/components/session";
import { Button } from "@/ui/button";
import { useSay } from "@/ui/toasts";

/** Lets a running job wait again, with its checkpoint. */
export function Requeue({ job, look = "plain" }: { job: Job; look?: "plain" | "quiet" }) {
  const me = useSession();
  const say = useSay();
  const act = useMutation({
    mutationFn: () =>
      answerOf(api.POST("/jobs/{job_id}/requeue", { params: { path: { job_id: job.id }, header: once() } })),
    onSuccess: () => say("done", `${job.name} #${job.id} stops and waits again.`),
    onError: (error) => say("failed", error.message),
  });
  if (job.state !== "running" || !mayActFor(me, job.tenant)) return null;
  return (
    <Button look={look} busy={act.isPending} onClick={() => act.mutate()}>
      Requeue
    </Button>
  );
}
