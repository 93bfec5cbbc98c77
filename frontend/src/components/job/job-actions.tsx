import { useMutation } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Ban, Copy, Pause, Pencil, Play } from "lucide-react";
import { useState } from "react";

import { answerOf, api, once } from "@/api/client";
import type { Job } from "@/api/schema";
import { mayActFor } from "@/components/roles";
import { useSession } from "@/components/session";
import { live } from "@/live/live";
import { Button, buttonClass } from "@/ui/button";
import { Confirm } from "@/ui/confirm";
import { onDemand } from "@/ui/on-demand";
import { useSay } from "@/ui/toasts";

const ChangeDialog = onDemand(async () => (await import("@/components/job/change-dialog")).ChangeDialog);

export function JobActions({ job }: { job: Job }) {
  const me = useSession();
  const say = useSay();
  const [asking, setAsking] = useState(false);
  const [changing, setChanging] = useState(false);
  const act = useMutation({
    mutationFn: (verb: "cancel" | "hold" | "release") =>
      answerOf(api.POST(`/jobs/{job_id}/${verb}`, { params: { path: { job_id: job.id }, header: once() } })),
    onSuccess: (answer) => live.apply({ type: "fetched", kind: "job", objects: [answer], since: live.current().clock }),
    onError: (error) => say("failed", error.message),
    onSettled: () => setAsking(false),
  });
  const mayAct = mayActFor(me, job.tenant);
  const hasEnded = job.ended_at !== null;
  return (
    <>
      <Link to="/submit" search={{ clone: job.id }} className={buttonClass()}>
        <Copy size={14} aria-hidden />
        Clone
      </Link>
      {mayAct && job.state === "queued" && (
        <Button
          icon={job.held ? <Play size={14} aria-hidden /> : <Pause size={14} aria-hidden />}
          busy={act.isPending}
          onClick={() => act.mutate(job.held ? "release" : "hold")}
        >
          {job.held ? "Release" : "Hold"}
        </Button>
      )}
      {mayAct && !hasEnded && !job.cancelling && (
        <Button icon={<Pencil size={14} aria-hidden />} onClick={() => setChanging(true)}>
          Change
        </Button>
      )}
      {changing && <ChangeDialog job={job} onClose={() => setChanging(false)} />}
      {mayAct && !hasEnded && (
        <Button
          look="danger"
          icon={<Ban size={14} aria-hidden />}
          disabled={job.cancelling}
          onClick={() => setAsking(true)}
        >
          {job.cancelling ? "Cancelling" : "Cancel job"}
        </Button>
      )}
      <Confirm
        open={asking}
        onClose={() => setAsking(false)}
        title={`Cancel ${job.name}?`}
        description={
          job.state === "running"
            ? "The job may write a checkpoint before it is stopped. A cancelled job does not run again."
            : "The job leaves the queue and does not run again."
        }
        action="Cancel job"
        busy={act.isPending}
        onConfirm={() => act.mutate("cancel")}
      />
    </>
  );
}
