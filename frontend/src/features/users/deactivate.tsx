import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { deactivateUser, type JobsOfLeaver, leavingQuery } from "@/api/access-queries";
import type { Leaving, User } from "@/api/schema";
import { counted } from "@/components/format";
import { Confirm } from "@/ui/confirm";
import { ErrorNotice, SkeletonLines } from "@/ui/feedback";
import { SelectField } from "@/ui/field";
import { Stack } from "@/ui/layout";
import { useSay } from "@/ui/toasts";

const CHOICES = [
  { value: "hold", label: "Running jobs go on, waiting ones are held" },
  { value: "cancel", label: "All are cancelled" },
];

/** Asks before an account is closed, and says what becomes of the jobs. */
export function Deactivate({ user, onClose }: { user: User; onClose: () => void }) {
  const { username } = user;
  const say = useSay();
  const queries = useQueryClient();
  const [jobs, setJobs] = useState<JobsOfLeaver>("hold");
  const foreseen = useQuery(leavingQuery(username, jobs));
  const deactivate = useMutation({
    mutationFn: () => deactivateUser(username, jobs),
    onSuccess: () => {
      say("done", `${username} is deactivated.`);
      onClose();
    },
    onError: (error) => say("failed", error.message),
    onSettled: () => queries.invalidateQueries({ queryKey: ["users"] }),
  });
  return (
    <Confirm
      open
      onClose={onClose}
      title={`Deactivate ${username}?`}
      description="Sign-ins and API tokens end at once. Memberships stay for the day the user is back."
      action="Deactivate"
      busy={deactivate.isPending}
      onConfirm={() => deactivate.mutate()}
    >
      <Stack>
        <SelectField
          label="Unfinished jobs"
          value={jobs}
          options={CHOICES}
          onChange={(event) => setJobs(event.target.value as JobsOfLeaver)}
        />
        {foreseen.isError && <ErrorNotice error={foreseen.error} onRetry={() => void foreseen.refetch()} />}
        {foreseen.isPending && <SkeletonLines count={1} />}
        {foreseen.data && <p>{leavingText(foreseen.data)}</p>}
      </Stack>
    </Confirm>
  );
}

export function leavingText({ running, held, cancelled }: Leaving): string {
  const parts = [
    running > 0 && `${counted(running, "running job")} to go on`,
    held > 0 && `${counted(held, "waiting job")} to be held until a member of the tenant releases them`,
    cancelled > 0 && `${counted(cancelled, "job")} to be cancelled`,
  ].filter(Boolean);
  return parts.length > 0 ? `${parts.join(", ")}.` : "The user has no unfinished jobs.";
}
