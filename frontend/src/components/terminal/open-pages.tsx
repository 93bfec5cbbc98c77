import { useMutation } from "@tanstack/react-query";
import { ExternalLink } from "lucide-react";

import { answerOf, api } from "@/api/client";
import type { Job } from "@/api/schema";
import { Button } from "@/ui/button";
import { useSay } from "@/ui/toasts";

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
